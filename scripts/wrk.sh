#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/wrk.sh

Prints the path of wrk, which the benchmark "serve" sends requests with. It is
unpacked in .local/wrk from the packages of Debian's release on this machine.
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
wrk=$root/.local/wrk
mkdir -p "$root/.local"
exec 9>"$wrk.lock"
flock 9
stamp=$(cksum <"$root/scripts/wrk.sh")
if [ "$(cat "$wrk/stamp" 2>/dev/null)" != "$stamp" ]; then
    echo 'Setting up wrk in .local/wrk (once; the system is not changed)'
    "$root/scripts/debs.sh" own "$wrk" wrk || {
        echo 'The packages of wrk could not be had (the reasons are above).'
        exit 3
    }
    libraries=$wrk/usr/lib/$(uname -m)-linux-gnu
    # The C library is the machine's own: it is of the same release, and fits its loader.
    rm -rf "$libraries"/{ld-*,lib{c,m,pthread,dl,rt,resolv,util,anl,mvec,nsl,thread_db,BrokenLocale}.so*}
    cat >"$wrk/wrk" <<'END'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
machine=$(uname -m)-linux-gnu
export LD_LIBRARY_PATH="$here/usr/lib/$machine:$here/lib/$machine"
exec "$here/usr/bin/wrk" "$@"
END
    chmod +x "$wrk/wrk"
    { "$wrk/wrk" --version 2>&1 || true; } | grep -q '^wrk ' || {
        echo 'wrk does not run on this machine.'
        exit 3
    }
    echo "$stamp" >"$wrk/stamp"
fi
echo "$wrk/wrk" >&3
