#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/browser.sh

Prints the path of a Chromium without a screen, for the tests of the page. It is
unpacked in .local/browser from the packages of Debian's release on this machine.
The system is not changed, and no root is needed.

Exits with 3 where the packages cannot be had.
END
}

case ${1-} in
'') ;;
--help)
    usage
    exit
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

# Only the path goes to standard output.
exec 3>&1 1>&2

root=$(cd "$(dirname "$0")/.." && pwd)
browser=$root/.local/browser
for tool in apt-get dpkg-deb flock; do
    command -v $tool >/dev/null || {
        echo "The browser needs $tool: it is unpacked from packages of Debian."
        exit 3
    }
done

mkdir -p "$root/.local"
exec 9>"$browser.lock"
flock 9
stamp=$(cksum <"$root/scripts/browser.sh")
if [ "$(cat "$browser/stamp" 2>/dev/null)" = "$stamp" ]; then
    echo "$browser/browser" >&3
    exit
fi

echo 'Setting up a browser in .local/browser (once; the system is not changed)'
rm -rf "$browser"
"$root/scripts/debs.sh" own "$browser" chromium-headless-shell fonts-dejavu-core || {
    echo 'The packages of the browser could not be had (the reasons are above).'
    exit 3
}
libraries=$browser/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH 2>/dev/null || echo "$(uname -m)-linux-gnu")
# The C library is the machine's own: it is of the same release, and fits its loader.
rm -rf "$libraries"/{ld-*,lib{c,m,pthread,dl,rt,resolv,util,anl,mvec,nsl,thread_db,BrokenLocale}.so*,libc_malloc*} \
    "$libraries"/libnss_* "$libraries"/libLLVM* "$libraries"/dri "$browser"/usr/share/{doc,man,locale,icons}
cat >"$browser/browser" <<END
#!/bin/sh
self=\$(readlink -f "\$0")
here=\${self%/*}
libraries=\$here/${libraries#"$browser"/}
export LD_LIBRARY_PATH="\$libraries:\$libraries/pulseaudio:\$here/lib/${libraries##*/}"
export FONTCONFIG_FILE="\$here/fonts.conf" FONTCONFIG_PATH="\$here/etc/fonts"
exec "\$here/usr/lib/chromium/chromium-headless-shell" "\$@"
END
cat >"$browser/fonts.conf" <<END
<?xml version="1.0"?>
<fontconfig>
  <dir>$browser/usr/share/fonts</dir>
  <cachedir>$browser/cache</cachedir>
</fontconfig>
END
chmod +x "$browser/browser"
"$browser/browser" --no-sandbox --dump-dom about:blank >"$browser/log" 2>&1 || {
    tail -n 5 "$browser/log"
    echo 'The browser does not run on this machine (its reasons are above).'
    exit 3
}
echo "$stamp" >"$browser/stamp"
echo "$browser/browser" >&3
