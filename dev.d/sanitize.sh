# shellcheck shell=bash
# ./dev sanitize: tests again, with somebody watching over memory and threads.

# Sanitizers and valgrind make everything slower: the schedules get longer, and those stuck are given
# more time to show that they are not.
WATCHED=(env "PORTALOCK_SCHEDULES_SECONDS=${PORTALOCK_SCHEDULES_SECONDS:-20}"
    "PORTALOCK_SCHEDULES_STUCK=${PORTALOCK_SCHEDULES_STUCK:-120}")

# What measures times that an instrumented program cannot keep.
TIMED=(timeouts:: sixteen_readers ten_thousand_pieces two_hundred_kills eight_processes_never_meet
    a_queue_of_our_own_needs_no_list answers_that_break_off_anywhere
    guarded_jobs_wait_for_each_other)
SKIP=() # the same for cargo test
for one in "${TIMED[@]}"; do SKIP+=(--skip "$one"); done
REPORTS= # where the sanitizer at work writes to, one file for each process

# have WHAT COMMAND...: counts only if it fails, and then says so.
have() {
    local what=$1
    shift
    "$@" || {
        failed 1 "$what"
        return 1
    }
}

# sanitizer NAME SHORT: how to run cargo so that Rust and C are watched by this sanitizer. Stable Rust
# has them, but says so only to those who ask. The C programs are linked with Rust's runtime, since
# two in one process do not get along.
sanitizer() {
    local runtime
    runtime=$(echo "$(rustc --print sysroot)/lib/rustlib/$(host)/lib/librustc-"*"_rt.$2.a")
    if [ ! -e "$runtime" ]; then
        echo "dev: this Rust has no $1 sanitizer for $(host)" >&2
        return 1
    fi
    REPORTS=$TARGET/$2/reports
    rm -rf "$REPORTS" && mkdir -p "$REPORTS" || return
    RUN=("${WATCHED[@]}" RUSTC_BOOTSTRAP=1 "RUSTFLAGS=-Zsanitizer=$1" "CARGO_TARGET_DIR=$TARGET/$2"
        PORTALOCK_CC=clang "PORTALOCK_CFLAGS=-fsanitize=$1 -fno-omit-frame-pointer"
        "PORTALOCK_LDFLAGS=-rdynamic -Wl,--whole-archive $runtime -Wl,--no-whole-archive -ldl -lm -lrt"
        cargo test --locked --no-fail-fast --target "$(host)")
}

# watched WHAT: the tests, by way of RUN.
watched() {
    tests "$1: unit tests" "${RUN[@]}" --lib
    tests "$1: tests/c_api, the C programs" "${RUN[@]}" --test c_api -- "${SKIP[@]}"
    tests "$1: tests/redis" "${RUN[@]}" --test redis -- --test-threads 1 "${SKIP[@]}"
    # Many of the processes are killed in the end, so that nobody looks at how they ended.
    # shellcheck disable=SC2016 # for the other shell
    check "$1: nothing was reported by any process" \
        bash -c 'cd "$0" && { cat -- * 2>/dev/null; [ -z "$(ls)" ]; }' "$REPORTS"
}

sanitize_asan() {
    have "the address sanitizer" sanitizer address asan || return
    local options=detect_leaks=1:detect_stack_use_after_return=1:strict_string_checks=1
    RUN=(env "ASAN_OPTIONS=$options:log_path=$REPORTS/of" "${RUN[@]}")
    watched "address sanitizer"
}

# The standard library has to be instrumented with the rest: what its fences order would look like
# races otherwise. So nothing is suppressed.
sanitize_tsan() {
    have "the sources of the standard library" need_rust_src &&
        have "the thread sanitizer" sanitizer thread tsan || return
    # The child of a process with threads makes threads of its own in tests/c/fork.c.
    local options=die_after_fork=0:second_deadlock_stack=1
    RUN=(env "TSAN_OPTIONS=$options:log_path=$REPORTS/of" "${RUN[@]}" -Zbuild-std)
    watched "thread sanitizer"
}

sanitize_valgrind() {
    have "valgrind" need_valgrind || return
    tests "valgrind: tests/c_api, the C programs" "${WATCHED[@]}" PORTALOCK_VALGRIND=1 \
        cargo test --locked --no-fail-fast --test c_api -- --test-threads 1 "${SKIP[@]}"
}

# An interpreter, so only what needs no system: the protocol, and what is pure of the rest.
sanitize_miri() {
    local miri
    if ! miri=$(find_miri); then
        say "miri: skipped, there is none here and rustup cannot get it"
        return
    fi
    # shellcheck disable=SC2086 # none or one word
    tests "miri: the protocol" env "CARGO_TARGET_DIR=$TARGET/miri" \
        cargo $miri miri test --locked --no-fail-fast --lib protocol::
}

# Miri comes with nightly toolchains. Says which one to ask for, as cargo takes it.
find_miri() {
    local one
    for one in "" +nightly; do
        # shellcheck disable=SC2086 # none or one word
        cargo $one miri --version >/dev/null 2>&1 && echo "$one" && return
    done
    echo "dev: installing miri with rustup" >&2
    rustup component add --toolchain nightly miri rust-src >&2 && echo +nightly
}

need_rust_src() {
    [ -e "$(rustc --print sysroot)/lib/rustlib/src/rust/library/Cargo.lock" ] && return
    echo "dev: installing rust-src with rustup"
    rustup component add rust-src
}

# Without the symbols of the C library valgrind does not even start.
need_valgrind() {
    need valgrind valgrind || return
    valgrind -q true 2>/dev/null || install libc6-dbg
}

cmd_sanitize() {
    local what=${1:-all} one
    case $what in
    asan | tsan | valgrind | miri | all) ;;
    *) die "no such thing to sanitize with: $what" ;;
    esac
    trap sum_up EXIT
    trap end_step INT TERM HUP
    need_rust || exit
    # shellcheck disable=SC2034 # that of dev
    LOG=$(mktemp) || exit
    prepare "tools that the tests need" need_for_sanitize
    for one in asan tsan valgrind miri; do
        [[ $what != all && $what != "$one" ]] || "sanitize_$one"
    done
    exit 0
}

need_for_sanitize() { need clang clang && need_redis; }
