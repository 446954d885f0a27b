# shellcheck shell=bash
# ./dev fuzz: the targets in fuzz/, which are steered by the code that their inputs reach.

FUZZ_TARGETS=(wire contender cabi)
# What cargo-fuzz would pass: counters on every edge, the operands of comparisons, and the address
# sanitizer. Stable Rust has all of it, but says so only to those who ask.
FUZZ_FLAGS="--cfg fuzzing -Zsanitizer=address -Ccodegen-units=1 -Cpasses=sancov-module
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"

host() { rustc -vV | sed -n 's/^host: //p'; }

build_fuzz() {
    say "building the fuzz targets"
    # --target keeps the flags from build scripts.
    RUSTC_BOOTSTRAP=1 RUSTFLAGS=$FUZZ_FLAGS CARGO_TARGET_DIR=$TARGET/fuzz \
        cargo build --locked --release --manifest-path fuzz/Cargo.toml --target "$(host)"
}

# fuzz TARGET RUNS: what was learnt before is where it goes on.
fuzz() {
    local name=$1 runs=$2 code program
    local home=$TARGET/fuzz corpus=$TARGET/fuzz/corpus/$1 found=$TARGET/fuzz/findings/$1-
    local options=(-max_len=512 -print_final_stats=1)
    program=$home/$(host)/release/$name
    mkdir -p "$corpus" "$home/findings"
    [ ! -e "fuzz/$name.dict" ] || options+=("-dict=fuzz/$name.dict")
    say "$name, $runs runs; the log is $home/$name.log"
    "$program" "-runs=$runs" "${options[@]}" "-artifact_prefix=$found" \
        "$corpus" "fuzz/corpus-seed/$name" 2>&1 |
        tee "$home/$name.log" | grep --line-buffered -E '^#[0-9]+.(INITED|pulse|DONE)|^Done|^stat::'
    code=${PIPESTATUS[0]}
    [ "$code" = 0 ] && return
    grep -vE '^#[0-9]+' "$home/$name.log" | tail -n 60
    echo "dev: to see it again: $program FILE, with the FILE that is named above" >&2
    return 1
}

cmd_fuzz() {
    local name=${1:-all} runs=${2:-10000000} one code=0
    [[ $name = all || " ${FUZZ_TARGETS[*]} " = *" $name "* ]] || die "no such target: $name"
    [[ $runs =~ ^[0-9]+$ ]] || die "not a number of runs: $runs"
    # libFuzzer itself is C++.
    need_rust && need g++ g++ && build_fuzz || exit
    for one in "${FUZZ_TARGETS[@]}"; do
        [[ $name != all && $name != "$one" ]] || fuzz "$one" "$runs" || code=1
    done
    return "$code"
}
