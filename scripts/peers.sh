#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/peers.sh PYTHON

Installs what the benchmark "peers" runs beside ours, the group "peers" in
pyproject.toml, in .local/peers with that Python's pip, where no test sees it.
Where it cannot, it says why, and the benchmark does without.
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
group=$("$1" scripts/groups.py peers)
if [ "$(cat $peers/stamp 2>/dev/null)" != "$group" ]; then
    rm -rf $peers
    echo 'Installing the peers' >&2
    "$1" -m pip install -qq --target $peers --group peers || {
        echo 'The peers could not be installed (the reasons are above).' >&2
        exit 0
    }
    echo "$group" >$peers/stamp
fi
