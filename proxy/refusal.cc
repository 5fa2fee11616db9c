#include "proxy/refusal.h"

#include "oci-spec/reasons.h"

namespace leash::proxy {

namespace {

constexpr size_t kMaxField = 2048;

std::string_view status_text(int status) {
  switch (status) {
    case 400:
      return "Bad Request";
    case 403:
      return "Forbidden";
    case 417:
      return "Expectation Failed";
    case 431:
      return "Request Header Fields Too Large";
    case 501:
      return "Not Implemented";
    case 502:
      return "Bad Gateway";
    case 503:
      return "Service Unavailable";
    case 504:
      return "Gateway Timeout";
    case 505:
      return "HTTP Version Not Supported";
    default:
      return "Error";
  }
}

std::string response(std::string_view body, std::string_view header, const RefusalForm& form) {
  std::string text = "HTTP/1.1 " + std::to_string(form.status) + " ";
  text += status_text(form.status);
  text += "\r\nContent-Type: application/json\r\nCache-Control: no-store\r\nx-leash: ";
  text += header;
  text += "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n";
  if (form.close) text += "Connection: close\r\n";
  text += "\r\n";
  if (!form.head_only) text += body;
  return text;
}

}  // namespace

std::string refusal_response(const oci::Refusal& refusal, const RefusalForm& form) {
  return response(oci::refusal_body(refusal), oci::refusal_header(refusal.reason), form);
}

std::string origin_error_response(std::string_view reason, std::string_view host, std::string_view detail,
                                  const RefusalForm& form) {
  const oci::ReasonWord* const word = oci::find_reason(reason);
  std::string body = "{\"error\":\"leash_origin_error\",\"reason\":";
  oci::append_json_string(body, reason, kMaxField);
  body += ",\"host\":";
  oci::append_json_string(body, host, kMaxField);
  body += ",\"detail\":";
  oci::append_json_string(body, detail, kMaxField);
  body += ",\"advice\":";
  oci::append_json_string(body, word != nullptr ? word->advice : std::string_view(), kMaxField);
  body += "}\n";
  return response(body, "error; reason=" + std::string(reason), form);
}

}  // namespace leash::proxy
