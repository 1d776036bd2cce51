#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/venv.sh [demo | docs]

Prints the path of the Python of .local/venv-3.13, the virtual environment with
the tools of the group "dev" in pyproject.toml. It is made by $PYTHON (python3
if unset), which must be 3.11 or later, is named for that Python's version, and
is made again when that or the group changes. The types of MicroPython's modules
(the groups "stubs-…") go to .local/stubs, a folder for each board.

With demo: the same for .local/demo-3.13, with the few packages of the group
"demo" and without the types. With docs: .local/docs-3.13, likewise.
END
}

# Only the path goes to standard output.
exec 3>&1 1>&2

fail() {
    printf '%s\n' "$@"
    exit 1
}

group=dev kind=venv
case ${1-} in
'') ;;
demo | docs) group=$1 kind=$1 ;;
--help)
    usage >&3
    exit
    ;;
*)
    usage
    exit 2
    ;;
esac

python=${PYTHON:-python3}
found=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])') || found=
if [ -z "$found" ] || ! printf '%s\n' 3.11 "$found" | sort -CV; then
    found=${found:+is Python $found}
    fail "$python ${found:-does not run}, but Python 3.11 or later is needed." \
        'Install one and name it, as in: make test PYTHON=python3.12'
fi
# Not that of a virtual environment, which may be the one that is made anew.
python=$("$python" -c 'import sys; print(sys._base_executable)')

cd "$(dirname "$0")/.."
venv=$PWD/.local/$kind-$found
mkdir -p .local
if command -v flock >/dev/null; then
    exec 9>.local/venv.lock
    flock 9
fi

stamp=$({
    pwd
    "$python" -c 'import sys; print(sys.version, sys.base_prefix)'
    "$python" scripts/groups.py "$group" $([ "$group" != dev ] || echo demo docs) # which dev includes
} | cksum)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_USER=0
again='Fix that and run the same command again; it starts afresh.'
if [ "$(cat "$venv/stamp" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$venv"
    echo "Setting up Python $found in ${venv#"$PWD"/} (once; the system is not changed)"
    pip=--without-pip
    ! "$python" -c 'import ensurepip' 2>/dev/null || pip=
    "$python" -m venv $pip "$venv" || fail "$python could not make a virtual environment (its reasons are above)." "$again"
    if [ -n "$pip" ]; then
        # Debian and Ubuntu leave pip out of python3. The pip of their package for it
        # trusts the certificates of another package, which may not be installed.
        packages=(python3-pip-whl)
        certificates=/etc/ssl/certs/ca-certificates.crt
        [ -e $certificates ] || packages+=(ca-certificates)
        scripts/debs.sh --no-deps own .local/pip "${packages[@]}" ||
            fail "$python has no pip, and the system's package of it could not be had. Install python3-venv, or whatever" \
                'your system calls it, or set PYTHON to a Python 3.11 or later that has pip.' "$again"
        if [ ! -e $certificates ]; then
            certificates=.local/pip/certificates.crt
            cat .local/pip/usr/share/ca-certificates/mozilla/*.crt >$certificates
        fi
        echo 'Installing pip'
        "$venv/bin/python" -c '
import runpy, sys
certificates, wheel = sys.argv[1:]
sys.path.insert(0, wheel)
from pip._vendor import certifi
certifi.where = lambda: certificates
sys.argv = ["pip", "install", "-qq", "pip"]
runpy.run_module("pip", run_name="__main__")
' $certificates .local/pip/usr/share/python-wheels/pip-*.whl ||
            fail 'pip could not be installed (its reasons are above).' "$again"
        rm -rf .local/pip
    fi
    echo "Installing the packages of the group $group in pyproject.toml"
    "$venv/bin/python" -m pip install -qq 'pip>=25.1' && # the first that knows groups
        "$venv/bin/python" -m pip install -qq --group "$group" ||
        fail "The packages of the group $group could not be installed (pip's reasons are above)." "$again"
    echo "$stamp" >"$venv/stamp"
fi

if [ "$group" != dev ]; then
    echo "$venv/bin/python" >&3
    exit
fi
stubs=.local/stubs
stamp=$("$python" scripts/groups.py stubs | cksum)
if [ "$(cat $stubs/stamp 2>/dev/null)" != "$stamp" ]; then
    rm -rf $stubs
    echo "Installing the types of MicroPython's modules"
    "$python" scripts/groups.py stubs- | while read -r group _; do
        "$venv/bin/python" -m pip install -qq --target "$stubs/${group#stubs-}" --group "$group" ||
            fail "The packages of $group could not be installed (pip's reasons are above)." "$again"
    done
    echo "$stamp" >$stubs/stamp
fi
echo "$venv/bin/python" >&3
