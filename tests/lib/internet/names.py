"""The names of the test internet: what the DNS answers and which certificate a TLS host shows.

All addresses come from the ranges that RFC 5737 and RFC 3849 keep for documentation. The namespace takes every
address on its outer link as its own, so an address that no name has (8.8.8.8, say) is answered too: whatever a
container manages to send anywhere arrives here and is recorded.
"""

RESOLVER = "203.0.113.53"
EVIL = "203.0.113.9"
V6 = "2001:db8:1::"

# name: (IPv4 addresses, IPv6 addresses). A leading dot stands for every name below.
ADDRESSES = {
    "api.anthropic.com": (["203.0.113.10"], []),
    "api.openai.com": (["203.0.113.11"], []),
    "ok.test": (["203.0.113.20"], []),
    "private.ok.test": (["10.0.0.5"], []),
    "loopback.ok.test": (["127.0.0.1"], ["::1"]),
    "metadata.ok.test": (["169.254.169.254"], []),
    "mapped.ok.test": ([], ["::ffff:169.254.169.254"]),
    ".ok.test": (["203.0.113.20"], []),
    "other.test": (["203.0.113.21"], []),
    "dual.test": (["203.0.113.22"], [V6 + "22"]),
    "six.test": ([], [V6 + "23"]),
    "many.test": (["203.0.113.24", "203.0.113.25"], []),
    "pinned.test": (["203.0.113.26"], []),
    "db.test": (["203.0.113.27"], []),
    "redirect.test": (["203.0.113.28"], []),
    "www.alias.test": (["203.0.113.29"], []),
    "deb.test": (["198.51.100.10"], []),
    "pip.test": (["198.51.100.11"], []),
    "npm.test": (["198.51.100.12"], []),
    "git.test": (["198.51.100.13"], []),
    "expired.test": (["198.51.100.20"], []),
    "selfsigned.test": (["198.51.100.21"], []),
    "wronghost.test": (["198.51.100.22"], []),
    "untrusted.test": (["198.51.100.23"], []),
    "evil.test": ([EVIL], [V6 + "9"]),
    ".evil.test": ([EVIL], [V6 + "9"]),
    "cloudflare-dns.com": (["203.0.113.99"], []),
    "dns.google": (["203.0.113.98"], []),
    "gist.github.com": (["203.0.113.97"], []),
    # names that lead where no container may go
    "private.test": (["10.0.0.5"], []),
    "loopback.test": (["127.0.0.1"], ["::1"]),
    "metadata.test": (["169.254.169.254"], []),
    "mapped.test": ([], ["::ffff:169.254.169.254"]),
    "mixed.test": (["203.0.113.20", "10.0.0.5"], []),
    "metadata.google.internal": (["169.254.169.254"], []),
}

ALIASES = {"alias.test": "www.alias.test", "escape.ok.test": "evil.test"}

# Names whose HTTPS record carries ECH and HTTP/3 hints, as large hosters' do.
HTTPS_RECORDS = {"ok.test", "api.anthropic.com"}

# Which certificate a TLS host shows; "good" for all the others.
CERTIFICATES = {
    "expired.test": "expired",
    "selfsigned.test": "selfsigned",
    "wronghost.test": "wronghost",
    "untrusted.test": "untrusted",
}


def lookup(name):
    """(aliases on the way, addresses) of a name; None when the name does not exist."""
    name = name.lower().rstrip(".")
    chain = []
    while name in ALIASES:
        chain.append((name, ALIASES[name]))
        name = ALIASES[name]
    if name in ADDRESSES:
        return chain, name, ADDRESSES[name]
    parent = name
    while "." in parent:
        parent = parent.split(".", 1)[1]
        if "." + parent in ADDRESSES:
            return chain, name, ADDRESSES["." + parent]
    return None


def good_names():
    names = [n for n in ADDRESSES if not n.startswith(".") and n not in CERTIFICATES]
    return names + ["*" + n for n in ADDRESSES if n.startswith(".")] + list(ALIASES)
