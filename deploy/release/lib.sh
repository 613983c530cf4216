# Shared by the scripts in this folder, which source it.

set -euo pipefail
# Sorting, and the order of patterns, must not depend on the machine.
export LC_ALL=C

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cargo_home=${CARGO_HOME:-$HOME/.cargo}
target_dir=${CARGO_TARGET_DIR:-$root/target}
[ -d "$HOME/.cargo/bin" ] && PATH=$PATH:$HOME/.cargo/bin

cyclonedx=0.5.9

die() {
    echo "${0##*/}: $*" >&2
    exit 1
}

need() {
    command -v "$1" >/dev/null || die "$1 is missing: $2"
}

as_root() {
    if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

# The version of the package, in Cargo.toml.
version=$(sed -n '/^\[package\]/,/^\[/s/^version = "\(.*\)"/\1/p' "$root/Cargo.toml")

# The git revision of the source, which the program and the image show. It marks files that are not committed.
if [ -z "${ORCHESTR_REVISION+set}" ]; then
    ORCHESTR_REVISION=$(git -C "$root" rev-parse HEAD | cut -c1-12)
    [ -z "$(git -C "$root" status --porcelain)" ] || ORCHESTR_REVISION+=-modified
fi
export ORCHESTR_REVISION

# The time in all archives, and of the image: that of the commit.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$root" log -1 --format=%ct)}

platforms=(linux/amd64 linux/arm64)

# The processor of a platform, as Rust and the GNU tools name it.
processor() {
    case $1 in
    linux/amd64) echo x86_64 ;;
    linux/arm64) echo aarch64 ;;
    *) die "$1 is not one of the platforms ${platforms[*]}" ;;
    esac
}

# The platform of this machine.
this_platform() {
    case $(uname -m) in
    x86_64) echo linux/amd64 ;;
    aarch64) echo linux/arm64 ;;
    *) die "there is no release for a machine of type $(uname -m)" ;;
    esac
}

# Copies the files that the Dockerfile copies for its build to a folder, so that a missing one fails here as well.
copy_source() {
    local paths
    mapfile -t paths < <(sed -n 's/^COPY \([^-].*\) [^ ]*$/\1/p' "$root/Dockerfile" | tr ' ' '\n')
    git -C "$root" ls-files -z --cached --others --exclude-standard -- "${paths[@]}" |
        (cd "$root" && xargs -0 cp --parents -t "$1")
}

# Prints a tar archive of a folder, which depends only on the names and contents of its files.
archive() {
    tar --create --directory "$1" --format ustar --sort name --mtime "@$SOURCE_DATE_EPOCH" \
        --owner 0 --group 0 --numeric-owner --mode 'u=rwX,go=rX' -- $(ls "$1")
}

# Builds a tool with Go, and prints its path.
go_tool() {
    local bin=$target_dir/release-tools module=$root/deploy/release/tools
    need go "install Go, see https://go.dev/dl"
    mkdir -p "$bin"
    case $1 in
    roots) set -- "$1" ./roots ;;
    crane) set -- "$1" github.com/google/go-containerregistry/cmd/crane ;;
    kustomize) set -- "$1" sigs.k8s.io/kustomize/kustomize/v5 ;;
    krew | validate-krew-manifest) set -- "$1" "sigs.k8s.io/krew/cmd/$1" ;;
    helm) set -- "$1" helm.sh/helm/v4/cmd/helm && module=$root/tests/testbed/tools/helm ;;
    esac
    CGO_ENABLED=0 GOWORK=off go build -C "$module" -mod=readonly -trimpath -buildvcs=false -ldflags '-s -w' \
        -o "$bin/$1" "$2"
    echo "$bin/$1"
}
