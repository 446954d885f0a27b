# shellcheck shell=bash
# ./dev fuzz: the targets in fuzz/, which are steered by the code that their inputs reach.

FUZZ_TARGETS=(wire contender cabi)
FUZZ_HOME=
# What cargo-fuzz would pass: counters on every edge, and the operands of comparisons.
FUZZ_FLAGS="--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

host() { rustc -vV | sed -n 's/^host: //p'; }

# build_fuzz TARGET: into FUZZ_HOME. The C ABI is the one that is not written in safe Rust, and is
# watched by the address sanitizer, which makes it two to three times slower. Stable Rust has that,
# but says so only to those who ask.
build_fuzz() {
    local flags=$FUZZ_FLAGS
    FUZZ_HOME=$TARGET/fuzz/plain
    [ "$1" != cabi ] || { flags+=" -Zsanitizer=address" && FUZZ_HOME=$TARGET/fuzz/asan; }
    say "building the fuzz target $1"
    # --target keeps the flags from build scripts.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=$flags CARGO_TARGET_DIR=$FUZZ_HOME cargo build -q --locked \
        --release --manifest-path fuzz/Cargo.toml --bin "$1" --target "$(host)"
}

# fuzz TARGET RUNS: what was learnt before is where it goes on.
fuzz() {
    local name=$1 runs=$2 code program
    local log=$TARGET/fuzz/$1.log corpus=$TARGET/fuzz/corpus/$1 found=$TARGET/fuzz/findings/$1-
    local options=(-max_len=512 -print_final_stats=1)
    build_fuzz "$name" || return
    program=$FUZZ_HOME/$(host)/release/$name
    mkdir -p "$corpus" "${found%/*}"
    [ ! -e "fuzz/$name.dict" ] || options+=("-dict=fuzz/$name.dict")
    say "$name, $runs runs; the log is $log"
    "$program" "-runs=$runs" "${options[@]}" "-artifact_prefix=$found" \
        "$corpus" "fuzz/corpus-seed/$name" 2>&1 |
        tee "$log" | grep --line-buffered -E '^#[0-9]+.(INITED|pulse|DONE)|^Done|^stat::'
    code=${PIPESTATUS[0]}
    [ "$code" = 0 ] && return
    grep -vE '^#[0-9]+' "$log" | tail -n 60
    echo "dev: to see it again: $program FILE, with the FILE that is named above" >&2
    return 1
}

cmd_fuzz() {
    local name=${1:-all} runs=${2:-10000000} one code=0
    [[ $name = all || " ${FUZZ_TARGETS[*]} " = *" $name "* ]] || die "no such target: $name"
    [[ $runs =~ ^[0-9]+$ ]] || die "not a number of runs: $runs"
    # libFuzzer itself is C++.
    need_rust && need g++ g++ || exit
    for one in "${FUZZ_TARGETS[@]}"; do
        [[ $name != all && $name != "$one" ]] || fuzz "$one" "$runs" || code=1
    done
    return "$code"
}
