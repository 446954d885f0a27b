# shellcheck shell=bash
# `./dev bench`: portalock and its peers at the same work, against one server.

BENCH_PYTHON=$TARGET/bench/venv/bin/python
BENCH_NODE=$TARGET/bench/node
export PORTALOCK_BENCH_PYTHON=$BENCH_PYTHON PORTALOCK_BENCH_NODE=$BENCH_NODE

need_bench() {
    need_rust && need_redis && need node nodejs npm npm || return
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

# cmd_bench [--quick] [--save]
cmd_bench() {
    need_bench || exit
    cargo build --locked --release --manifest-path bench/Cargo.toml || exit
    "$TARGET/release/portalock-bench" "$@"
}
