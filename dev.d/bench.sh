# shellcheck shell=bash
# `./dev bench`: portalock and its peers at the same work, against one server.

BENCH_PYTHON=$TARGET/bench/venv/bin/python
BENCH_NODE=$TARGET/bench/node
BENCH_PAIR=$TARGET/bench/pair
export PORTALOCK_BENCH_PYTHON=$BENCH_PYTHON PORTALOCK_BENCH_NODE=$BENCH_NODE PORTALOCK_BENCH_PAIR=$BENCH_PAIR

need_bench() {
    need_rust && need_redis && need_ruby &&
        need node nodejs npm npm go golang-go pkg-config pkg-config || return
    if ! "$BENCH_PYTHON" -c 'import portalocker, redis, redis_lock' 2>/dev/null; then
        python3 -c 'import ensurepip, venv' 2>/dev/null || install python3 python3-venv || return
        echo "dev: installing portalocker, redis and python-redis-lock from PyPI into $TARGET/bench/venv"
        python3 -m venv --clear "$TARGET/bench/venv" &&
            "$BENCH_PYTHON" -m pip install -q --disable-pip-version-check \
                portalocker==4.4.2 redis==8.1.0 python-redis-lock==4.0.1 || return
    fi
    if [ ! -d "$BENCH_NODE/node_modules/redlock" ] || [ ! -d "$BENCH_NODE/node_modules/ioredis" ]; then
        echo "dev: installing redlock and ioredis from npm into $BENCH_NODE"
        mkdir -p "$BENCH_NODE" &&
            npm install --silent --no-fund --no-audit --prefix "$BENCH_NODE" redlock@4.2.0 ioredis@5 ||
            return
    fi
}

# The pair in C and Go, with the shared object that was built together with the bench.
build_pairs() {
    local lib=$BENCH_PAIR/lib name
    mkdir -p "$lib" || return
    for name in libportalock.so libportalock.so.0; do
        ln -sf "$TARGET/release/deps/libportalock.so" "$lib/$name" || return
    done
    printf 'Name: portalock\nDescription: distributed locks\nVersion: 0\nLibs: -L"%s" -lportalock\nCflags: -I"%s"\n' \
        "$lib" "$PWD/include" >"$lib/portalock.pc" || return
    cc -std=c11 -D_POSIX_C_SOURCE=200809L -O2 -Wall -Wextra -Werror -Iinclude bench/pair/pair.c \
        -o "$BENCH_PAIR/C" "-L$lib" -lportalock || return
    (cd bench/pair/go &&
        PKG_CONFIG_PATH=$lib GOCACHE=$BENCH_PAIR/cache GOPATH=$BENCH_PAIR/path GOPROXY=off GOENV=off \
            GOWORK=off GOTOOLCHAIN=local GOFLAGS='' CGO_ENABLED=1 go build -o "$BENCH_PAIR/Go" .)
}

# cmd_bench [--quick] [--save]
cmd_bench() {
    need_bench || exit
    cargo build --locked --release --manifest-path bench/Cargo.toml || exit
    build_pairs || exit
    LD_LIBRARY_PATH=$BENCH_PAIR/lib PORTALOCK_LIBRARY=$BENCH_PAIR/lib/libportalock.so.0 \
        "$TARGET/release/portalock-bench" "$@"
}
