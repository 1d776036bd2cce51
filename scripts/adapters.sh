#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/adapters.sh PYTHON NAME-newest|NAME-lowest...

Prints a line for each environment: the path of its Python. An environment is
that Python with one SDK in the newest or the lowest version that its adapter
supports, the group adapter-NAME-newest or adapter-NAME-lowest in
pyproject.toml. It lies in .local/adapters and is made when first asked for,
and again when that Python or the group changes. What several of them hold is
on the disk once.
END
}

case ${1-} in
--help)
    usage
    exit
    ;;
'' | -*)
    usage >&2
    exit 2
    ;;
esac
python=$1
shift

cd "$(dirname "$0")/.."
mkdir -p .local/adapters
adapters=$(cd .local/adapters && pwd -P)
uv=$adapters/uv/bin/uv
export UV_CACHE_DIR=$adapters/cache UV_NO_PROGRESS=1

# Runs the command that follows under the lock $1, as nobody else does.
locked() {
    (
        ! command -v flock >/dev/null || flock 9
        "${@:2}"
    ) 9>"$adapters/$1.lock"
}

# Runs the command that follows to fill the folder $1, unless that was made from $2.
fill() {
    [ "$(cat "$adapters/$1/stamp" 2>/dev/null)" != "$2" ] || return 0
    rm -rf "${adapters:?}/$1"
    echo "Setting up .local/adapters/$1" >&2
    "${@:3}" || {
        echo "$1 could not be set up (the reasons are above)." >&2
        exit 1
    }
    echo "$2" >"$adapters/$1/stamp"
}

environment() {
    "$uv" venv -q --no-config --python "$base" "$adapters/$1" &&
        "$uv" pip install -q --python "$adapters/$1/bin/python" --group "adapter-$1"
}

base=$("$python" -c 'import sys; print(sys._base_executable)')
version=$("$base" -c 'import sys; print(sys.version, sys.base_prefix)')
locked uv fill uv "$("$python" scripts/groups.py uv)" \
    "$python" -m pip install -qq --target "$adapters/uv" --group uv
for name; do
    group=$("$python" scripts/groups.py "adapter-$name" adapter-tests)
    locked "$name" fill "$name" "$version $group" environment "$name"
    echo "$adapters/$name/bin/python"
done
