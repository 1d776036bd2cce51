#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/node.sh

Prints the folder of the packages of npm that tests need, for $NODE_PATH: SDKs for
the proxy, and axe, which looks for barriers in the page. They are those of tests/proxy/node/package.json, and are installed
in .local/node with npm, which Node.js 18 or later brings.
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

cd "$(dirname "$0")/.."
mkdir -p .local/node
node=$PWD/.local/node
(
    ! command -v flock >/dev/null || flock 9
    if ! cmp -s tests/proxy/node/package.json "$node/stamp"; then
        rm -rf "$node/node_modules"
        cp tests/proxy/node/package.json "$node/"
        echo 'Installing packages of npm in .local/node' >&2
        npm --prefix "$node" install --no-audit --no-fund --ignore-scripts --loglevel=error >&2
        cp tests/proxy/node/package.json "$node/stamp"
    fi
) 9>"$node/lock"
echo "$node/node_modules"
