#include "cli/terminal.h"

#include "cli/table.h"
#include "tests/unit/catch.h"

using namespace leash;

TEST_CASE("terminal: no control character of a hostile text reaches the terminal") {
  struct Case {
    std::string text;
    std::string shown;
  };
  const Case example = GENERATE(
      Case{"plain.example.com", "plain.example.com"}, Case{"\x1b[2Jgone", "\\x1b[2Jgone"}, Case{"a\nb\rc\td", "a\\x0ab\\x0dc\\x09d"},
      Case{std::string("nul\0!", 5), "nul\\x00!"}, Case{"del\x7f", "del\\x7f"}, Case{"\xc2\x9b" "31m", "\\u{9b}31m"},
      Case{"\x9b", "\\x9b"}, Case{"\xff\xfe", "\\xff\\xfe"}, Case{"\xc0\xaf", "\\xc0\\xaf"}, Case{"\xed\xa0\x80", "\\xed\\xa0\\x80"},
      Case{"moc.\xe2\x80\xae" "evil", "moc.\\u{202e}evil"}, Case{"a\xe2\x80\x8b" "b", "a\\u{200b}b"},
      Case{"\xe2\x80\xa8", "\\u{2028}"}, Case{"\xf3\xa0\x81\xa1", "\\u{e0061}"}, Case{"back\\slash", "back\\\\slash"},
      Case{"m\xc3\xbcnchen \xe6\x97\xa5", "m\xc3\xbcnchen \xe6\x97\xa5"}, Case{"\xe2\x82", "\\xe2\\x82"});
  CHECK(cli::escaped(example.text) == example.shown);
}

TEST_CASE("terminal: every byte is shown without a byte below space or above tilde that is not UTF-8") {
  for (int first = 0; first < 256; ++first) {
    for (int second = 0; second < 256; ++second) {
      const std::string text = {static_cast<char>(first), static_cast<char>(second)};
      for (const char c : cli::escaped(text)) {
        const auto byte = static_cast<unsigned char>(c);
        REQUIRE(byte >= 0x20);
        REQUIRE(byte != 0x7f);
      }
    }
  }
}

TEST_CASE("terminal: a long text is cut") {
  CHECK(cli::escaped(std::string(600, 'a'), 10) == "aaaaaaaaaa...");
  CHECK(cli::escaped("aaaaaaaaaa", 10) == "aaaaaaaaaa");
}

TEST_CASE("terminal: colours are written only where a person looks") {
  CHECK(cli::Painter(false).paint(cli::Colour::kRed, "x") == "x");
  CHECK(cli::Painter(true).paint(cli::Colour::kRed, "x") == "\x1b[31mx\x1b[0m");
  CHECK(cli::Painter(true).paint(cli::Colour::kNone, "x") == "x");
}

TEST_CASE("table: columns line up, also with characters of several bytes") {
  cli::Table table({"A", "LONGER", "LAST"});
  table.add({{"m\xc3\xbcller"}, {"x"}, {"end"}});
  table.add({{"b"}, {"longest text"}, {""}});
  CHECK(table.print(cli::Painter(false)) ==
        "A       LONGER        LAST\n"
        "m\xc3\xbcller  x             end\n"
        "b       longest text  \n");
}
