#!/usr/bin/env bash
set -euo pipefail

usage() {
    cat <<'END'
usage: scripts/debs.sh [--no-deps | --source | --arch ARCH] RELEASE FOLDER PACKAGE...

Unpacks packages of a Debian or Ubuntu release, with all they depend on, into
FOLDER, replacing it. RELEASE is a code name, or "own" for this machine's.
With --no-deps only the packages named; ARCH is another architecture than the machine's.
With --source FOLDER gets the archives of their sources, as they are.

The system is neither changed nor asked for rights: apt works on a state of its
own in FOLDER.apt, on the mirror and with the signing key that this machine's
apt configuration names for its own release.
END
}

fail() {
    printf '%s\n' "$@" >&2
    exit 1
}

deps=yes
arch=
case ${1-} in
--help)
    usage
    exit
    ;;
--no-deps)
    deps=no
    shift
    ;;
--source)
    deps=source
    shift
    ;;
--arch)
    arch=${2-}
    shift 2
    ;;
esac
if [ $# -lt 3 ]; then
    usage >&2
    exit 2
fi
release=$1 folder=$2
shift 2
case $folder in /*) ;; *) folder=$PWD/$folder ;; esac

for tool in apt-get apt-config dpkg dpkg-deb; do
    command -v $tool >/dev/null || fail "scripts/debs.sh needs $tool: it works on Debian and Ubuntu only."
done

# shellcheck source=/dev/null
. /etc/os-release
own=${UBUNTU_CODENAME:-${DEBIAN_CODENAME:-${VERSION_CODENAME-}}}
if [ -n "${UBUNTU_CODENAME-}" ]; then
    family=ubuntu components='main universe'
else
    family=debian components=main
fi
[ "$release" != own ] || release=$own

# The repository this machine takes its own release from. Others may use the
# release's name too; the distribution's is the one with its updates as well.
# shellcheck disable=SC2016
targets=$(apt-get -o Dir::Cache::pkgcache= -o Dir::Cache::srcpkgcache= \
    indextargets --no-release-info 'Created-By: Packages' \
    --format '$(RELEASE) $(COMPONENT) $(REPO_URI) $(SOURCESENTRY)')
read -r mirror entry < <(awk -v own="$own" '
    $1 ~ "-updates$" { full[$3] }
    $2 == "main" && ($1 == own || $1 ~ /^(oldstable|stable|testing|unstable|sid)$/ && $3 ~ /debian\/$/) {
        uri[++n] = $3
        entry[n] = $4
    }
    END {
        for (i = 1; i <= n; i++) if (uri[i] in full) break
        if (i > n) i = 1
        print uri[i], entry[i]
    }' <<<"$targets")
[ -n "$mirror" ] || fail "The apt configuration of this machine (/etc/apt/sources.list and /etc/apt/sources.list.d)" \
    "names no source for its own release, \"$own main\", so there is no mirror to get $* from. Add one."

# apt names the entry "FILE:LINE", or "FILE:STANZA" in a file of stanzas.
file=${entry%:*} number=${entry##*:}
case $file in
*.sources) stanza=$(grep -v '^#' "$file" | awk -v RS= -v n="$number" 'NR == n') ;;
*) stanza=$(sed -n "${number}p" "$file") ;;
esac
key=$(sed -nE 's/.*[Ss]igned-[Bb]y[:=][[:space:]]*(\/[^] ,]+).*/\1/p' <<<"$stanza")
for file in "/usr/share/keyrings/$family-archive-keyring".{gpg,pgp}; do
    [ -n "$key" ] || [ ! -e "$file" ] || key=$file
done

apt=$folder.apt
trap 'rm -rf "$apt" "$folder.new"' EXIT
rm -rf "$apt" "$folder.new"
mkdir -p "$apt/state/lists/partial" "$apt/cache/archives/partial" "$folder.new"
: >"$apt/status"
arch=${arch:-$(dpkg --print-architecture)}
kind=deb
[ $deps != source ] || kind=deb-src
echo "$kind [arch=$arch${key:+ signed-by=$key}] $mirror $release $components" >"$apt/sources.list"
# Of the machine's own settings only those of the network count: its pins,
# hooks and extra indexes are about its own packages.
network=$(apt-config dump | grep -E '^Acquire::(https?|Retries|ForceIPv[46]|Check-)' || true)
cat >"$apt/apt.conf" <<END
Dir::State "$apt/state";
Dir::State::status "$apt/status";
Dir::Cache "$apt/cache";
Dir::Etc::main "/dev/null";
Dir::Etc::parts "/dev/null";
Dir::Etc::sourcelist "$apt/sources.list";
Dir::Etc::sourceparts "/dev/null";
Dir::Etc::preferences "/dev/null";
Dir::Etc::preferencesparts "/dev/null";
APT::Architecture "$arch";
APT::Architectures { "$arch"; };
APT::Sandbox::User "root";
APT::Install-Recommends "false";
APT::Update::Error-Mode "any";
Acquire::Languages "none";
$network
END
export APT_CONFIG=$apt/apt.conf

step() {
    "$@" >"$apt/log" 2>&1 || fail "$(grep -E '^(E:|W:|dpkg-deb:)' "$apt/log" || tail -n 5 "$apt/log")" \
        "${packages[*]} of $release could not be had from $mirror (the reasons are above)."
}

packages=("$@")
echo "Reading the list of packages of $release from $mirror" >&2
step apt-get -q update
echo "Downloading ${packages[*]}" >&2
cd "$apt/cache/archives"
case $deps in
yes) step apt-get -qy --download-only install "${packages[@]}" ;;
no) step apt-get -q download "${packages[@]}" ;;
source)
    cd "$folder.new"
    step apt-get -q --download-only source "${packages[@]}"
    ;;
esac
cd "$OLDPWD"
for deb in "$apt"/cache/archives/*.deb; do
    [ $deps = source ] || step dpkg-deb -x "$deb" "$folder.new"
done
rm -rf "$folder"
mv "$folder.new" "$folder"
