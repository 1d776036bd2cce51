#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/peers.sh PYTHON

Installs what the benchmark "peers" runs beside ours (requirements-peers.txt)
in .local/peers with that Python's pip, where no test sees it. Says why where it
cannot, and leaves it to the benchmark to do without.
END
}

case ${1-} in
--help)
    usage
    exit
    ;;
'' | -*)
    usage
    exit 2
    ;;
esac

cd "$(dirname "$0")/.."
peers=.local/peers
if ! cmp -s requirements-peers.txt $peers/stamp; then
    rm -rf $peers
    echo 'Installing the peers of requirements-peers.txt' >&2
    "$1" -m pip install -qq --target $peers -r requirements-peers.txt || {
        echo 'The peers could not be installed (the reasons are above).' >&2
        exit 0
    }
    cp requirements-peers.txt $peers/stamp
fi
