#!/usr/bin/env bash
# certificates.sh FOLDER: the test internet's certificate authority and the certificates of its hosts, good and bad.
# FOLDER/ca.pem is what a machine that lives in this internet trusts.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
mkdir -p "$1"
cd "$1"
[ -s untrusted.pem ] && exit 0
names=$(cd "$here" && "${LAB_PYTHON:-python3}" -B -c 'import names; print(",".join("DNS:" + n for n in names.good_names()))')

key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key" 2>/dev/null; }
authority() {  # NAME SUBJECT
  key "$1"
  openssl req -x509 -new -key "$1.key" -subj "/CN=$2" -days 3650 -out "$1.pem" \
    -addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign,cRLSign 2>/dev/null
}
leaf() {  # NAME AUTHORITY SUBJECT ALTERNATIVE-NAMES [START END]
  key "$1"
  openssl req -new -key "$1.key" -subj "/CN=$3" -out "$1.csr" 2>/dev/null
  printf 'subjectAltName=%s\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' "$4" >"$1.ext"
  : >"$1.index"
  printf '[ca]\ndefault_ca=d\n[d]\nnew_certs_dir=.\ndatabase=%s.index\nrand_serial=yes\ndefault_md=sha256\npolicy=p\n[p]\ncommonName=supplied\n' "$1" >"$1.cnf"
  openssl ca -batch -config "$1.cnf" -cert "$2.pem" -keyfile "$2.key" -in "$1.csr" -out "$1.pem" -notext -extfile "$1.ext" \
    -startdate "${5:-20240101000000Z}" -enddate "${6:-20440101000000Z}" 2>/dev/null
  rm -f "$1.csr" "$1.ext" "$1.index"* "$1.cnf" [0-9A-F]*.pem
}

authority ca "Leash test internet"
authority stranger "Nobody's authority"
leaf good ca ok.test "$names"
leaf expired ca expired.test DNS:expired.test 20200101000000Z 20210101000000Z
leaf wronghost ca other.test DNS:other.test
authority selfsigned selfsigned.test
leaf untrusted stranger untrusted.test DNS:untrusted.test
