#!/usr/bin/env python3
"""Programs inside trust their proxy, whatever they read their roots from, and the image is not changed.

Each tool talks TLS to a site of the test internet and fails when it does not trust the leaf that it is shown. What
the tools fetch (a package, a wheel, an npm module, a repository) is made here and served as static files.
"""

import base64
import hashlib
import io
import json
import os
import shutil
import sys
import tarfile
import tempfile
import zipfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
from checks import *

POLICY = "allow: [ok.test, deb.test, pip.test, npm.test, git.test]\n"
CACHE = os.environ.get("LEASH_LAB_CACHE", "/var/cache/leash-lab")
PATH = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def trusted(*command, image=TEST, flags=(), **options):
    return docker_run(*with_policy(POLICY), *flags, image, *command, **options)


def site(name):
    folder = f"{RUN}/www/{name}"
    os.makedirs(folder, exist_ok=True)
    return folder


def put(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(data if isinstance(data, bytes) else data.encode())


def wheel(name, version, files):
    """A wheel as pip wants it."""
    info = f"{name}-{version}.dist-info"
    files = {**files, f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
             f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"}
    record = ""
    for path, text in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        record += f"{path},sha256={digest},{len(text.encode())}\n"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for path, text in {**files, f"{info}/RECORD": record + f"{info}/RECORD,,\n"}.items():
            archive.writestr(path, text)
    return f"{name}-{version}-py3-none-any.whl", buffer.getvalue()


def serve_wheels(*wheels):
    root = site("pip.test")
    for name in {w[0].split("-")[0] for w in wheels}:
        links = "".join(f'<a href="/{file}">{file}</a>\n' for file, _ in wheels if file.split("-")[0] == name)
        put(f"{root}/simple/{name}/index.html", f"<!DOCTYPE html><html><body>{links}</body></html>")
    for file, data in wheels:
        put(f"{root}/{file}", data)


def serve_packages():
    """A flat repository with the ca-certificates package of the distribution."""
    root = site("deb.test")
    packages = ""
    for name in sorted(os.listdir(f"{CACHE}/deb")):
        if not name.startswith("ca-certificates_"):
            continue
        shutil.copy(f"{CACHE}/deb/{name}", root)
        with open(f"{root}/{name}", "rb") as file:
            data = file.read()
        control = run("dpkg-deb", "-f", f"{root}/{name}").ok().out.rstrip("\n")
        packages += f"{control}\nFilename: ./{name}\nSize: {len(data)}\nSHA256: {hashlib.sha256(data).hexdigest()}\n\n"
    that(packages, f"no ca-certificates package in {CACHE}/deb")
    put(f"{root}/Packages", packages)


@check("curl trusts its proxy, with the variables and without any", leashed=True)
def _():
    trusted("curl", "-sS", "--fail", "https://ok.test/").ok()
    trusted("env", "-i", PATH, "curl", "-sS", "--fail", "https://ok.test/").ok()


@check("the variables point at readable files, and an exec has them too", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "60") as container:
        variables = container.exec("env").ok().out
        for line in ("SSL_CERT_FILE=/dev/leash/bundle.pem", "REQUESTS_CA_BUNDLE=/dev/leash/bundle.pem",
                     "NODE_EXTRA_CA_CERTS=/dev/leash/ca.pem", "NODE_USE_SYSTEM_CA=1"):
            contains(variables, line)
        container.exec("head", "-c", "10", "/dev/leash/ca.pem", "/dev/leash/bundle.pem", flags=["-u", "nobody"]).ok()
        container.exec("curl", "-sS", "--fail", "https://ok.test/").ok()
        that(container.sh("echo x >/dev/leash/ca.pem").code != 0, "/dev/leash is writable")


@check("a variable that the user has set stays as it is", leashed=True)
def _():
    ran = trusted("sh", "-c", "echo $SSL_CERT_FILE $PIP_CERT", flags=["-e", "SSL_CERT_FILE=/own.pem"]).ok()
    equal(ran.out, "/own.pem /dev/leash/bundle.pem\n")


@check("openssl finds the authority by its hash in the directory of certificates, under its strict rules", leashed=True)
def _():
    ran = trusted("sh", "-c", "env -i " + PATH + " openssl s_client -connect ok.test:443 -servername ok.test -verify_return_error"
                  " -x509_strict -verify_hostname ok.test -no-CAfile -CApath /etc/ssl/certs </dev/null").ok()
    contains(ran.out, "Verify return code: 0 (ok)")


@check("Python's urllib and requests trust their proxy", leashed=True)
def _():
    for environment in ([], ["env", "-i", PATH]):
        trusted(*environment, "python3", "-c", "import urllib.request as u; u.urlopen('https://ok.test/').read()").ok()
        trusted(*environment, "python3", "-c", "import requests; requests.get('https://ok.test/').raise_for_status()").ok()


@check("node trusts its proxy", leashed=True)
def _():
    trusted("node", "-e", "require('https').get('https://ok.test/', r => process.exit(r.statusCode == 200 ? 0 : 1))"
            ".on('error', e => { console.error(e); process.exit(1) })").ok()


@check("git clones over HTTPS", leashed=True)
def _():
    with tempfile.TemporaryDirectory() as work:
        git = ["git", "-c", "user.name=t", "-c", "user.email=t@t", "-C", work]
        run("git", "init", "-q", "-b", "main", work).ok()
        put(f"{work}/file", "cloned\n")
        run(*git, "add", ".").ok()
        run(*git, "commit", "-qm", "one").ok()
        bare = f"{site('git.test')}/repository.git"
        shutil.rmtree(bare, ignore_errors=True)
        run("git", "clone", "-q", "--bare", work, bare).ok()
        run("git", "-C", bare, "update-server-info").ok()
    for environment in ("", f"env -i {PATH} HOME=/root "):
        ran = trusted("sh", "-c", f"{environment}git clone -q https://git.test/repository.git /tmp/r && cat /tmp/r/file").ok()
        contains(ran.out, "cloned")


@check("pip installs from an index", leashed=True)
def _():
    serve_wheels(wheel("leashed", "1.0", {"leashed.py": "word = 'installed'\n"}))
    ran = trusted("sh", "-c", "pip install -q --disable-pip-version-check --break-system-packages --target /tmp/p"
                  " --index-url https://pip.test/simple leashed && PYTHONPATH=/tmp/p python3 -c 'import leashed; print(leashed.word)'").ok()
    contains(ran.out, "installed")


@check("npm installs from a registry", leashed=True)
def _():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, text in {"package.json": '{"name":"leashed","version":"1.0.0","main":"index.js"}',
                           "index.js": "module.exports = 'installed'\n"}.items():
            entry = tarfile.TarInfo("package/" + name)
            entry.size = len(text)
            archive.addfile(entry, io.BytesIO(text.encode()))
    data = buffer.getvalue()
    root = site("npm.test")
    put(f"{root}/leashed-1.0.0.tgz", data)
    integrity = "sha512-" + base64.b64encode(hashlib.sha512(data).digest()).decode()
    put(f"{root}/leashed", json.dumps({
        "name": "leashed", "dist-tags": {"latest": "1.0.0"},
        "versions": {"1.0.0": {"name": "leashed", "version": "1.0.0", "main": "index.js",
                               "dist": {"tarball": "https://npm.test/leashed-1.0.0.tgz", "integrity": integrity}}}}))
    ran = trusted("sh", "-c", "mkdir /tmp/n && cd /tmp/n && npm install --silent --no-audit --no-fund --no-update-notifier"
                  " --registry https://npm.test/ leashed && node -p 'require(\"leashed\")'", timeout=120).ok()
    contains(ran.out, "installed")


@check("a static Go program trusts its proxy", leashed=True)
def _():
    go = shutil.which("go")
    if not go:
        skip("go is not installed")
    with tempfile.TemporaryDirectory() as work:
        put(f"{work}/main.go", 'package main\n\nimport (\n\t"fmt"\n\t"net/http"\n\t"os"\n)\n\nfunc main() {\n'
            '\tanswer, err := http.Get("https://ok.test/")\n\tif err != nil {\n\t\tfmt.Println(err)\n\t\tos.Exit(1)\n\t}\n'
            '\tfmt.Println(answer.StatusCode)\n}\n')
        run(go, "build", "-o", f"{work}/program", f"{work}/main.go", timeout=300, cwd=work,
            env={"CGO_ENABLED": "0", "GO111MODULE": "off", "GOCACHE": f"{work}/cache", "GOFLAGS": ""}).ok()
        for environment in ([], ["env", "-i", PATH]):
            equal(trusted(*environment, "/program", flags=["-v", f"{work}/program:/program:ro"]).ok().out, "200\n")


@check("Java trusts its proxy by its own cacerts", leashed=True)
def _():
    jlink, javac = shutil.which("jlink"), shutil.which("javac")
    if not jlink or not javac:
        skip("no JDK is installed")
    with tempfile.TemporaryDirectory() as work:
        put(f"{work}/Get.java", "public class Get { public static void main(String[] a) throws Exception {"
            " System.out.println(((java.net.HttpURLConnection) new java.net.URL(\"https://ok.test/\").openConnection()).getResponseCode()); } }")
        run(javac, "-d", work, f"{work}/Get.java", timeout=120).ok()
        made = run(jlink, "--add-modules", "java.base,jdk.crypto.ec", "--strip-debug", "--output", f"{work}/java", timeout=300)
        if made.code != 0:
            skip("jlink cannot make a runtime here: " + made.out.strip()[:200])
        # Part of the image and not a mount: the usual case.
        name = f"trust-java-{os.getpid()}"
        docker("create", "--name", name, "--runtime", "runc", TEST, "true").ok()
        try:
            run("mkdir", "-p", f"{work}/opt").ok()
            os.rename(f"{work}/java", f"{work}/opt/jdk")
            cacerts = f"{work}/opt/jdk/lib/security/cacerts"
            if os.path.islink(cacerts) or not os.path.exists(cacerts):
                source = os.path.realpath(cacerts)
                if os.path.islink(cacerts):
                    os.unlink(cacerts)
                shutil.copy(source if os.path.exists(source) else "/etc/ssl/certs/java/cacerts", cacerts)
            shutil.copy(f"{work}/Get.class", f"{work}/opt/Get.class")
            docker("cp", f"{work}/opt", f"{name}:/", timeout=120).ok()
            image = f"leash/java-{os.getpid()}"
            docker("commit", name, image, timeout=120).ok()
        finally:
            docker("rm", "-f", name)
        try:
            equal(trusted("/opt/jdk/bin/java", "-cp", "/opt", "Get", image=image, timeout=120).ok().out.strip(), "200")
        finally:
            docker("rmi", "-f", image)


@check("apt fetches over HTTPS, and ca-certificates can be installed again without losing the authority", leashed=True)
def _():
    serve_packages()
    with Container(*with_policy(POLICY), TEST, "sleep", "600") as container:
        container.sh("echo 'deb [trusted=yes] https://deb.test/ ./' >/etc/apt/sources.list").ok()
        container.sh("apt-get update 2>&1", timeout=120).ok()
        ran = container.sh("DEBIAN_FRONTEND=noninteractive apt-get install -y --reinstall ca-certificates 2>&1", timeout=180).ok()
        contains(ran.out, "Setting up ca-certificates")
        container.sh("update-ca-certificates --fresh 2>&1", timeout=120).ok()
        container.exec("env", "-i", PATH, "curl", "-sS", "--fail", "https://ok.test/").ok()
        container.sh("apt-get update 2>&1", timeout=120).ok()


@check("certifi's own bundle carries the authority, and pip can replace certifi", leashed=True)
def _():
    bundle = open("/etc/ssl/certs/ca-certificates.crt").read()
    old, new = (wheel("certifi", version, {
        "certifi/__init__.py": "import os\n\ndef where():\n    return os.path.join(os.path.dirname(__file__), 'cacert.pem')\n",
        "certifi/cacert.pem": bundle + f"# {version}\n"}) for version in ("2023.5.7", "2024.8.30"))
    serve_wheels(old, new)
    pip = "/opt/venv/bin/python -m pip install -q --disable-pip-version-check --index-url https://pip.test/simple"
    name, image = f"trust-certifi-{os.getpid()}", f"leash/certifi-{os.getpid()}"
    made = docker("run", "--name", name, "--runtime", "leash", *with_policy(POLICY), TEST, "sh", "-c",
                  f"python3 -m venv --system-site-packages --without-pip /opt/venv && {pip} certifi==2023.5.7", timeout=120)
    try:
        made.ok()
        docker("commit", name, image, timeout=120).ok()
    finally:
        docker("rm", "-f", name)
    get = "/opt/venv/bin/python -c \"import ssl, urllib.request as u, certifi; print(u.urlopen('https://ok.test/'," \
          " context=ssl.create_default_context(cafile=certifi.where())).status)\""
    try:
        ran = trusted("sh", "-c", f"{get} && {pip} --upgrade certifi && grep -c '# 2024.8.30' /opt/venv/lib/python3*/site-packages/certifi/cacert.pem",
                      image=image, timeout=120).ok()
        equal(ran.out, "200\n1\n")
    finally:
        docker("rmi", "-f", image)


@check("docker diff shows nothing of the authority", leashed=True)
def _():
    for image, command in ((TEST, ["curl", "-sS", "--fail", "https://ok.test/"]), (BUSYBOX, ["true"])):
        name = f"trust-diff-{os.getpid()}"
        docker("run", "--name", name, "--runtime", RUNTIME, *with_policy(POLICY), image, *command).ok()
        try:
            equal(docker("diff", name).ok().out, "")
        finally:
            docker("rm", "-f", name)


@check("a read-only container trusts its proxy and cannot write into the overlays", leashed=True)
def _():
    trusted("env", "-i", PATH, "curl", "-sS", "--fail", "https://ok.test/", flags=["--read-only"]).ok()
    ran = trusted("sh", "-c", "echo x >/etc/ssl/certs/x", flags=["--read-only"])
    contains(ran.err + ran.out, "Read-only file system")


@check("a bundle that the user mounts stays the user's, with the authority added", leashed=True)
def _():
    with tempfile.TemporaryDirectory() as work:
        with open("/etc/ssl/certs/ca-certificates.crt") as file:
            own = "# corporate\n" + file.read().split("-----END CERTIFICATE-----\n")[0] + "-----END CERTIFICATE-----\n"
        put(f"{work}/corporate.crt", own)
        mount = f"{work}/corporate.crt:/etc/ssl/certs/ca-certificates.crt:ro"
        ran = trusted("grep", "-c", "corporate", "/etc/ssl/certs/ca-certificates.crt", flags=["-v", mount]).ok()
        equal(ran.out, "1\n")
        trusted("env", "-i", PATH, "curl", "-sS", "--fail", "https://ok.test/", flags=["-v", mount]).ok()
        with open(f"{work}/corporate.crt") as file:
            equal(file.read(), own)


@check("what a container writes into the directory of certificates is bounded", leashed=True)
def _():
    ran = trusted("sh", "-c", "head -c 64M /dev/zero >/etc/ssl/certs/big; stat -c %s /etc/ssl/certs/big")
    that(int(ran.out.split()[-1]) < 32 << 20, ran)


@check("the authority's key is nowhere inside, and each container has another authority", leashed=True)
def _():
    script = "grep -rl 'PRIVATE KEY' /dev/leash /etc/ssl /usr/local/share /proc/mounts; cat /dev/leash/ca.pem"
    first, second = (trusted("sh", "-c", script).ok().out for _ in range(2))
    for out in (first, second):
        that(out.startswith("-----BEGIN CERTIFICATE-----"), out)
    that(first != second, "two containers have the same authority")


@check("nothing of the trust is left on the host when the container has ended", leashed=True)
def _():
    with Container(*with_policy(POLICY), TEST, "sleep", "60") as container:
        that(os.path.isdir(f"/run/leash/{container.id}/trust"), "the layers are not where they should be")
        mounts = [line for line in open("/proc/self/mounts") if container.id in line and "/run/leash/" in line]
        equal(mounts, [], "a trust overlay is mounted on the host")
    that(not os.path.exists(f"/run/leash/{container.id}"), "the registry directory is left")


if __name__ == "__main__":
    main()
