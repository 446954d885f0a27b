/**
 * @file
 * portalock for C++17 and newer: owners, exceptions and std::chrono over the C interface of portalock.h.
 * Header-only; a program links with the library as a C program does.
 *
 * Rules that hold for everything here:
 *
 * - Thread-safety. What the C interface says holds here too: const or not, every member function may be
 *   called from several threads at once. Only a constructor, a move, an assignment and the destructor
 *   need the object for themselves, as everywhere in C++.
 * - Errors. A function without a std::error_code & throws portalock::error, a std::system_error whose
 *   code is of portalock::category(). The overload that takes a std::error_code & last throws nothing,
 *   and always sets it. With -fno-exceptions, what would have thrown writes the message to stderr and
 *   ends the program with std::terminate.
 * - Spans are any std::chrono::duration. They are rounded up to whole milliseconds; a negative one means
 *   0, which is one attempt where it is for waiting, and more than a year (366 days) means a year.
 * - Owners are move-only. One that was moved from, or whose construction has failed with an error code,
 *   is empty: what it is asked answers errc::invalid, and nothing is harmed.
 * - Callables are moved in, called on the library's thread for callbacks, and destroyed exactly once,
 *   also if the function that takes them fails. One that throws ends the program with std::terminate, as
 *   a std::thread's function does: there is nobody who could catch it.
 */
#ifndef PORTALOCK_HPP
#define PORTALOCK_HPP

#include <portalock.h>

#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <type_traits>
#include <utility>

#if __cplusplus >= 202002L && defined(__has_include)
#if __has_include(<stop_token>)
#include <stop_token>
#endif
#endif
#if defined(__cpp_lib_jthread)
/// Defined where the overloads that take a std::stop_token are there.
#define PORTALOCK_HAS_STOP_TOKEN 1
#endif

#if defined(__cpp_exceptions) || defined(__EXCEPTIONS)
/// Defined where the compiler has exceptions: without, what would have thrown ends the program.
#define PORTALOCK_HAS_EXCEPTIONS 1
#endif

namespace portalock {

// --- Errors ------------------------------------------------------------------------------------------

/// What can go wrong; the numbers are those of `pl_status`. Converts to a std::error_code.
enum class errc : pl_status {
    /// The time given for waiting has passed while others held the lock. std::errc::timed_out.
    timeout = PL_TIMEOUT,
    /// Somebody else holds the lock, and the caller did not want to wait. device_or_resource_busy.
    locked = PL_LOCKED,
    /// The caller holds this lock already. resource_deadlock_would_occur.
    active = PL_ACTIVE,
    /// There is nothing to release. operation_not_permitted.
    not_held = PL_NOT_HELD,
    /// The lock was held and has been lost. owner_dead.
    lost = PL_LOST,
    /// The acquire was cancelled from elsewhere. operation_canceled.
    cancelled = PL_CANCELLED,
    /// An argument is out of range, or an object is empty. invalid_argument.
    invalid = PL_INVALID,
    /// Nothing listens at the server's address. connection_refused.
    refused = PL_REFUSED,
    /// The server's address leads nowhere. host_unreachable.
    unreachable = PL_UNREACHABLE,
    /// The server does not answer in time. connection_aborted.
    unresponsive = PL_UNRESPONSIVE,
    /// The server does not accept the user or the password. permission_denied.
    auth = PL_AUTH,
    /// The user lacks the permission for a command, channel or key. permission_denied.
    denied = PL_DENIED,
    /// Whatever answers at the server's address is no Redis server. protocol_error.
    not_redis = PL_NOT_REDIS,
    /// The server answered with an error. io_error.
    server = PL_SERVER,
    /// The connection ended. connection_reset.
    disconnected = PL_DISCONNECTED,
    /// The object was made before a fork, by the parent of this process. operation_not_permitted.
    forked = PL_FORKED,
    /// The library was built without this, or does not know it. not_supported.
    unsupported = PL_UNSUPPORTED,
    /// A fault of the library itself. state_not_recoverable.
    internal = PL_INTERNAL,
    /// Somebody is there and does not answer. resource_unavailable_try_again.
    unclear = PL_UNCLEAR,
    /// The key of the fencing counter cannot be counted up. value_too_large.
    fence = PL_FENCE,
    /// TLS with the server cannot be agreed on. protocol_error.
    tls = PL_TLS,
};

} // namespace portalock

/// @cond
template <> struct std::is_error_code_enum<portalock::errc> : std::true_type {};
/// @endcond

namespace portalock {

namespace detail {

class error_category final : public std::error_category {
public:
    const char *name() const noexcept override { return "portalock"; }

    std::string message(int status) const override { return text(status); }

    std::error_condition default_error_condition(int status) const noexcept override
    {
        switch (static_cast<errc>(status)) {
        case errc::timeout: return std::errc::timed_out;
        case errc::locked: return std::errc::device_or_resource_busy;
        case errc::active: return std::errc::resource_deadlock_would_occur;
        case errc::not_held: return std::errc::operation_not_permitted;
        case errc::lost: return std::errc::owner_dead;
        case errc::cancelled: return std::errc::operation_canceled;
        case errc::invalid: return std::errc::invalid_argument;
        case errc::refused: return std::errc::connection_refused;
        case errc::unreachable: return std::errc::host_unreachable;
        case errc::unresponsive: return std::errc::connection_aborted;
        case errc::auth:
        case errc::denied: return std::errc::permission_denied;
        case errc::not_redis:
        case errc::tls: return std::errc::protocol_error;
        case errc::server: return std::errc::io_error;
        case errc::disconnected: return std::errc::connection_reset;
        case errc::forked: return std::errc::operation_not_permitted;
        case errc::unsupported: return std::errc::not_supported;
        case errc::internal: return std::errc::state_not_recoverable;
        case errc::unclear: return std::errc::resource_unavailable_try_again;
        case errc::fence: return std::errc::value_too_large;
        }
        return {status, *this};
    }

    static const char *text(int status) noexcept
    {
        switch (static_cast<errc>(status)) {
        case errc::timeout: return "others hold the lock, and the time for waiting has passed";
        case errc::locked: return "somebody else holds the lock";
        case errc::active: return "this lock is being acquired or is held already";
        case errc::not_held: return "the lock is not held";
        case errc::lost: return "the lock was lost while it was held";
        case errc::cancelled: return "the acquire was cancelled";
        case errc::invalid: return "an argument is not valid";
        case errc::refused: return "the server refuses connections";
        case errc::unreachable: return "the server cannot be reached";
        case errc::unresponsive: return "the server does not answer in time";
        case errc::auth: return "the server does not accept the user or the password";
        case errc::denied: return "the user lacks a permission";
        case errc::not_redis: return "this is no Redis server";
        case errc::server: return "the server answered with an error";
        case errc::disconnected: return "the connection ended";
        case errc::forked: return "made before a fork, by the parent of this process";
        case errc::unsupported: return "not supported";
        case errc::internal: return "a fault of the library";
        case errc::unclear: return "somebody is there and does not answer";
        case errc::fence: return "the fencing counter cannot be counted up";
        case errc::tls: return "TLS with the server cannot be agreed on";
        }
        return status == PL_OK ? "it worked" : "unknown";
    }
};

} // namespace detail

/// The category of this library's error codes; its name is "portalock".
inline const std::error_category &category() noexcept
{
    static const detail::error_category instance;
    return instance;
}

/// An error code of category(); found by argument-dependent lookup.
inline std::error_code make_error_code(errc code) noexcept
{
    return {static_cast<int>(code), category()};
}

/// What is thrown: `code()` says what went wrong, `what()` says it for people. Never holds a password.
class error : public std::system_error {
public:
    /// With a code of category() and what the library says of it.
    error(std::error_code code, const std::string &message, bool retryable)
        : std::system_error(code, message), retryable_(retryable)
    {
    }

    /// Whether the same call can succeed later although nothing is changed.
    bool retryable() const noexcept { return retryable_; }

private:
    bool retryable_;
};

namespace detail {

template <auto Free> struct deleter {
    template <class Handle> void operator()(Handle *handle) const noexcept { Free(handle); }
};

template <class Handle, auto Free> using owner = std::unique_ptr<Handle, deleter<Free>>;

inline std::error_code code_of(pl_status status) noexcept
{
    return status == PL_OK ? std::error_code() : std::error_code(status, category());
}

/// The outcome of a call of the C interface, with the error that came with it.
class outcome {
public:
    outcome() = default;
    explicit outcome(pl_status status) noexcept : status_(status) {}
    outcome(pl_status status, pl_error *error) noexcept
        : status_(status), error_(error), owned_(error)
    {
    }

    /// The same outcome; must not outlive this one.
    outcome borrow() const noexcept
    {
        outcome same(status_);
        same.error_ = error_;
        return same;
    }

    pl_status status() const noexcept { return status_; }
    bool ok() const noexcept { return status_ == PL_OK; }
    bool is(errc code) const noexcept { return status_ == static_cast<pl_status>(code); }

    /// Whether it worked; where somebody was in the way, that is an answer and no error.
    bool granted(std::error_code &ec) const noexcept
    {
        const bool expected = is(errc::timeout) || is(errc::locked);
        ec = expected ? std::error_code() : code_of(status_);
        return ok();
    }

    void store(std::error_code &ec) const noexcept { ec = code_of(status_); }

    void check() const
    {
        if (ok())
            return;
        const char *message = error_ ? pl_error_message(error_) : error_category::text(status_);
#ifdef PORTALOCK_HAS_EXCEPTIONS
        throw error(code_of(status_), message, retryable());
#else
        std::fprintf(stderr, "portalock: %s (%s)\n", message, pl_status_name(status_));
        std::terminate();
#endif
    }

private:
    bool retryable() const noexcept
    {
        return error_ ? pl_error_retryable(error_)
                      : is(errc::timeout) || is(errc::locked) || is(errc::lost);
    }

    pl_status status_ = PL_OK;
    const pl_error *error_ = nullptr;
    owner<pl_error, pl_error_free> owned_;
};

/// Calls a function of the C interface that takes the place for its error last.
template <class... Parameters, class... Arguments>
outcome ask(pl_status (*function)(Parameters...), Arguments... arguments) noexcept
{
    pl_error *error = nullptr;
    const pl_status status = function(arguments..., &error);
    return {status, error};
}

/// A string of C, or `nullptr`, which is refused there, where a NUL would cut it short.
inline const char *whole(const std::string &text) noexcept
{
    return text.find('\0') == std::string::npos ? text.c_str() : nullptr;
}

constexpr std::int64_t longest_ms = 31622400000;
using exact_ms = std::chrono::duration<long double, std::milli>;

/// Rounds up to whole milliseconds, without overflow. What is not above zero becomes `negative` if it
/// is below, and so does what is not a number.
template <class Rep, class Period>
std::int64_t to_ms(std::chrono::duration<Rep, Period> span, std::int64_t negative = 0) noexcept
{
    const long double wanted = exact_ms(span).count();
    if (!(wanted > 0))
        return wanted == 0 ? 0 : negative;
    if (wanted >= static_cast<long double>(longest_ms))
        return longest_ms;
    return std::chrono::ceil<std::chrono::duration<std::int64_t, std::milli>>(span).count();
}

/// How far away a point in time is. Points are subtracted where they cannot overflow.
template <class Clock, class Duration>
std::int64_t until_ms(const std::chrono::time_point<Clock, Duration> &when)
{
    return to_ms(exact_ms(when.time_since_epoch()) - exact_ms(Clock::now().time_since_epoch()));
}

inline std::string_view view(const char *text) noexcept { return text ? text : std::string_view(); }

template <class Callable> bool is_empty(const Callable &) noexcept { return false; }
template <class Signature> bool is_empty(const std::function<Signature> &callable) noexcept
{
    return !callable;
}
template <class Result, class... Arguments> bool is_empty(Result (*const &function)(Arguments...)) noexcept
{
    return function == nullptr;
}

/// Frees what a callback's context points to.
template <class Callable> void destroy(void *context) noexcept
{
    delete static_cast<Callable *>(context);
}

} // namespace detail

// --- Vocabulary --------------------------------------------------------------------------------------

/// How a lock is wanted or held.
enum class mode : pl_mode {
    /// Neither: of a member that waits, or, for an acquire, what the options say.
    none = PL_MODE_NONE,
    /// Together with other readers.
    shared = PL_MODE_SHARED,
    /// Alone.
    exclusive = PL_MODE_EXCLUSIVE,
};

/// Where a member of a lock's channel stands.
enum class state : pl_state {
    waiting = PL_STATE_WAITING,
    held = PL_STATE_HELD,
    /// Has left, and answers only because it was still counted.
    leaving = PL_STATE_LEAVING,
};

/// How urgent a line of the log is, most urgent first.
enum class log_level : pl_log_level {
    off = PL_LOG_OFF,
    error = PL_LOG_ERROR,
    warn = PL_LOG_WARN,
    info = PL_LOG_INFO,
    debug = PL_LOG_DEBUG,
};

/// Why a held lock was lost.
enum class loss_reason : pl_loss_reason {
    /// Of an event that tells of no loss.
    none = 0,
    /// The connection ended: killed, server gone, network gone.
    disconnected = PL_LOSS_DISCONNECTED,
    /// The server took the subscription away and kept the connection.
    unsubscribed = PL_LOSS_UNSUBSCRIBED,
    /// The server answered in a way that no sound server does.
    protocol = PL_LOSS_PROTOCOL,
    /// The server does not answer.
    unresponsive = PL_LOSS_UNRESPONSIVE,
    /// The keep-alive thread has died.
    internal = PL_LOSS_INTERNAL,
    /// The server is not the master any more, or not known to be.
    demoted = PL_LOSS_DEMOTED,
};

/// The loss of a held lock, as a callback is told of it. `message` lives as long as the call.
struct loss {
    /// Why.
    loss_reason reason;
    /// What happened, in one line of UTF-8.
    std::string_view message;
};

/// How long to wait: any duration converts to it, and there are `forever` and `by_options`.
class timeout {
public:
    /// A span, rounded up to milliseconds; 0 or less for one attempt, at most a year.
    template <class Rep, class Period>
    timeout(std::chrono::duration<Rep, Period> span) noexcept : ms_(detail::to_ms(span))
    {
    }

    /// A time of the C interface: milliseconds, PL_WAIT_FOREVER or PL_DEFAULT.
    static constexpr timeout of_c(std::int64_t ms) noexcept { return timeout(ms, 0); }

    /// As the C interface has it: milliseconds, PL_WAIT_FOREVER or PL_DEFAULT.
    constexpr std::int64_t to_c() const noexcept { return ms_; }

private:
    constexpr timeout(std::int64_t ms, int) noexcept : ms_(ms) {}

    std::int64_t ms_;
};

/// Without a bound.
inline constexpr timeout forever = timeout::of_c(PL_WAIT_FOREVER);
/// As the lock's options say: 5 s unless set.
inline constexpr timeout by_options = timeout::of_c(PL_DEFAULT);

namespace detail {

/// Options: a handle, and the first thing that went wrong with it, which whoever uses them is told.
template <class Handle, auto New, auto Free> class options {
public:
    /// The first value that was refused, or an empty code.
    std::error_code status() const noexcept { return code_of(wrong_.status()); }

    /// The handle of the C interface; stays the owner's.
    const Handle *native_handle() const noexcept { return handle_.get(); }

    /// What whoever uses these options has to say; must not outlive them.
    outcome wrong() const noexcept
    {
        // NULL would mean the defaults.
        return wrong_.ok() && !handle_ ? outcome(PL_INVALID) : wrong_.borrow();
    }

protected:
    options() noexcept
    {
        Handle *handle = nullptr;
        wrong_ = ask(New, &handle);
        handle_.reset(handle);
    }

    template <class Set, class... Values> void set(Set function, Values... values) noexcept
    {
        if (wrong_.ok())
            wrong_ = ask(function, handle_.get(), values...);
    }

    /// A negative span is refused here: nobody waits.
    template <class Set, class Rep, class Period>
    void set_span(Set function, std::chrono::duration<Rep, Period> span) noexcept
    {
        set(function, to_ms(span, INT64_MIN));
    }

private:
    owner<Handle, Free> handle_;
    outcome wrong_;
};

} // namespace detail

/// How a client connects. Set what should differ from the defaults; a client keeps a copy. A value that
/// is out of range is remembered, and refused (errc::invalid) by the client that is made from it.
class client_options
    : public detail::options<pl_client_options, pl_client_options_new, pl_client_options_free> {
public:
    /// The defaults.
    client_options() noexcept {}

    /// How long one attempt to connect and log in may take, and how long the server may leave a command
    /// unanswered: above 0, at most a year; 5 s unless set.
    template <class Rep, class Period>
    client_options &connect_timeout(std::chrono::duration<Rep, Period> span) noexcept
    {
        set_span(pl_client_options_set_connect_timeout, span);
        return *this;
    }

    /// How many unused connections are kept open for later acquires: 0 to 1024; 8 unless set.
    client_options &pool_size(std::uint32_t connections) noexcept
    {
        set(pl_client_options_set_pool_size, connections);
        return *this;
    }

    /// Whether all locks of the client live on one connection; no unless set. See
    /// pl_client_options_set_shared_connection.
    client_options &shared_connection(bool yes = true) noexcept
    {
        set(pl_client_options_set_shared_connection, yes);
        return *this;
    }

    /// The PEM file of the authorities that are trusted with a rediss:// URL; the system's unless set. See
    /// pl_client_options_set_tls_ca_file.
    client_options &tls_ca_file(const std::string &file) noexcept
    {
        set(pl_client_options_set_tls_ca_file, detail::whole(file));
        return *this;
    }

    /// The PEM files of the certificate and of the private key that are shown to a server that asks.
    client_options &tls_client_certificate(const std::string &certificate, const std::string &key) noexcept
    {
        set(pl_client_options_set_tls_client_certificate, detail::whole(certificate), detail::whole(key));
        return *this;
    }

    /// Whom the server's certificate has to be for; the URL's host unless set.
    client_options &tls_server_name(const std::string &name) noexcept
    {
        set(pl_client_options_set_tls_server_name, detail::whole(name));
        return *this;
    }

    /// Whether any certificate is accepted: for trials only; no unless set.
    client_options &tls_insecure_no_verification(bool yes = true) noexcept
    {
        set(pl_client_options_set_tls_insecure_no_verification, yes);
        return *this;
    }
};

/// How a lock is acquired and kept. Set what should differ from the defaults; a lock keeps a copy. A
/// value that is out of range is remembered, and refused (errc::invalid) by the lock that is made from it.
class lock_options
    : public detail::options<pl_lock_options, pl_lock_options_new, pl_lock_options_free> {
public:
    /// The defaults.
    lock_options() noexcept {}

    /// The mode of acquires that do not name one; exclusive unless set.
    lock_options &mode(portalock::mode wanted) noexcept
    {
        mode_ = static_cast<pl_mode>(wanted);
        set(pl_lock_options_set_mode, mode_);
        return *this;
    }

    /// How long an acquire with by_options waits; 5 s unless set.
    lock_options &timeout(portalock::timeout limit) noexcept
    {
        timeout_ms_ = limit.to_c();
        set(pl_lock_options_set_timeout, timeout_ms_);
        return *this;
    }

    /// How long a waiter stays off the channel at most when a foreign writer comes first: once to three
    /// times this. Above 0, at most a year; 250 ms unless set.
    template <class Rep, class Period>
    lock_options &check_interval(std::chrono::duration<Rep, Period> span) noexcept
    {
        set_span(pl_lock_options_set_check_interval, span);
        return *this;
    }

    /// How long a member may stay silent before its connection is ended: above 0, at most a year; 1 s
    /// unless set.
    template <class Rep, class Period>
    lock_options &unavailable_timeout(std::chrono::duration<Rep, Period> span) noexcept
    {
        set_span(pl_lock_options_set_unavailable_timeout, span);
        return *this;
    }

    /// How often a held lock is checked: 100 ms to a year, or 0 for never; 10 s unless set.
    template <class Rep, class Period>
    lock_options &health_check_interval(std::chrono::duration<Rep, Period> span) noexcept
    {
        set_span(pl_lock_options_set_health_check_interval, span);
        return *this;
    }

    /// Whether every exclusive grant draws a fencing token; not unless set.
    lock_options &fencing(bool yes = true) noexcept
    {
        set(pl_lock_options_set_fencing, yes);
        return *this;
    }

    /// Whether an acquire gives up with errc::locked at once when somebody else holds the lock, whatever
    /// its timeout; not unless set.
    lock_options &fail_when_locked(bool yes = true) noexcept
    {
        fail_when_locked_ = yes;
        set(pl_lock_options_set_fail_when_locked, yes);
        return *this;
    }

    /// A text that is shown to whoever asks who holds the lock: at most 256 bytes of UTF-8.
    lock_options &label(const std::string &text) noexcept
    {
        set(pl_lock_options_set_label, detail::whole(text));
        return *this;
    }

    /// Whether host name, process id, label and time are shown to whoever asks; shown unless set.
    lock_options &disclose(bool yes) noexcept
    {
        set(pl_lock_options_set_disclose, yes);
        return *this;
    }

private:
    friend class mutex;

    // What a lock has to know before it asks the library.
    pl_mode mode_ = PL_MODE_EXCLUSIVE;
    std::int64_t timeout_ms_ = 5000;
    bool fail_when_locked_ = false;
};

// --- The threads of this process -----------------------------------------------------------------------

namespace detail {

using steady = std::chrono::steady_clock;

/// One acquire, as long as a thread is in it.
struct want {
    pl_mode mode;
    std::int64_t timeout_ms;
    bool stopped = false;
    std::uint64_t epoch = 0;
    want *next = nullptr;
};

/// A lock of the C interface is one contender, which is acquired once at a time. This lets the threads of
/// this process take turns with it, in the order in which they came: readers together on one grant.
class turnstile {
public:
    turnstile(pl_lock *handle, bool impatient) noexcept : handle_(handle), impatient_(impatient) {}
    turnstile(const turnstile &) = delete;
    turnstile &operator=(const turnstile &) = delete;
    /// A callback that is being called may still go through: it is waited for first.
    ~turnstile() { handle_.reset(); }

    pl_lock *handle() const noexcept { return handle_.get(); }

    /// What the child of a fork inherits may be in any state, and is not to be touched.
    bool is_inherited() const noexcept { return getpid() != process_; }

    outcome acquire(want &mine) noexcept
    {
        if (is_inherited())
            return ask(pl_lock_acquire_mode, handle(), mine.mode, mine.timeout_ms);
        std::unique_lock<std::mutex> guard(mutex_);
        if (phase_ == phase::exclusive && owner_ == std::this_thread::get_id())
            return outcome(PL_ACTIVE);
        mine.epoch = epoch_;
        outcome turn = take_turn(mine, guard);
        if (!turn.ok())
            return turn;
        if (phase_ == phase::shared) {
            readers_++;
            return turn;
        }
        return enter(mine, guard);
    }

    outcome release(std::int64_t confirm_ms = -1) noexcept
    {
        if (is_inherited())
            return ask(pl_lock_release, handle());
        std::unique_lock<std::mutex> guard(mutex_);
        if (phase_ == phase::shared && readers_ > 1) {
            readers_--;
            return outcome(pl_lock_is_held(handle()) ? PL_OK : PL_LOST);
        }
        // Not ours to count: an acquire that was started, or nothing at all.
        const bool counted = phase_ == phase::shared || phase_ == phase::exclusive;
        if (counted)
            phase_ = phase::changing;
        guard.unlock();
        outcome left = confirm_ms < 0 ? ask(pl_lock_release, handle())
                                      : ask(pl_lock_release_wait, handle(), confirm_ms);
        guard.lock();
        if (counted)
            become(phase::idle);
        return left;
    }

    /// Ends every acquire that is under way.
    void cancel() noexcept
    {
        if (is_inherited())
            return;
        std::unique_lock<std::mutex> guard(mutex_);
        const std::uint64_t now = ++epoch_;
        changed_.notify_all();
        pl_lock_cancel(handle());
        while (current_ != nullptr && current_->epoch < now)
            cancel_again(guard);
    }

    /// Ends one acquire, or keeps it from beginning.
    void stop(want &mine) noexcept
    {
        if (is_inherited())
            return;
        std::unique_lock<std::mutex> guard(mutex_);
        mine.stopped = true;
        changed_.notify_all();
        while (current_ == &mine)
            cancel_again(guard);
    }

private:
    enum class phase { idle, changing, shared, exclusive };

    /// How long readers may join a grant. Without a bound, those of this process could follow each
    /// other for ever, and no writer elsewhere would get in.
    static constexpr std::chrono::seconds joinable{1};

    outcome take_turn(want &mine, std::unique_lock<std::mutex> &guard) noexcept
    {
        if (!is_cancelled(mine) && first_ == nullptr && may_enter(mine, mine.timeout_ms == 0))
            return {};
        if (mine.timeout_ms == 0 || impatient_)
            return outcome(is_cancelled(mine) ? PL_CANCELLED : PL_LOCKED);
        const auto deadline = steady::now() + std::chrono::milliseconds(mine.timeout_ms);
        const auto over = [&] {
            return is_cancelled(mine) || (first_ == &mine && may_enter(mine, false));
        };
        queue(mine);
        bool in_time = true;
        if (mine.timeout_ms < 0)
            changed_.wait(guard, over);
        else
            in_time = changed_.wait_until(guard, deadline, over);
        leave_queue(mine);
        // 0 would be one attempt, which is answered in other words.
        if (mine.timeout_ms > 0 && (mine.timeout_ms = to_ms(deadline - steady::now())) == 0)
            mine.timeout_ms = 1;
        if (is_cancelled(mine))
            return outcome(PL_CANCELLED);
        return outcome(in_time ? PL_OK : PL_TIMEOUT);
    }

    outcome enter(want &mine, std::unique_lock<std::mutex> &guard) noexcept
    {
        phase_ = phase::changing;
        current_ = &mine;
        guard.unlock();
        outcome granted = ask(pl_lock_acquire_mode, handle(), mine.mode, mine.timeout_ms);
        guard.lock();
        current_ = nullptr;
        if (!granted.ok()) {
            become(phase::idle);
            return granted;
        }
        readers_ = 1;
        since_ = steady::now();
        owner_ = std::this_thread::get_id();
        become(mine.mode == PL_MODE_SHARED ? phase::shared : phase::exclusive);
        return granted;
    }

    bool may_enter(const want &mine, bool once) const noexcept
    {
        if (phase_ == phase::idle)
            return true;
        return phase_ == phase::shared && mine.mode == PL_MODE_SHARED && pl_lock_is_held(handle()) &&
               (once || steady::now() - since_ < joinable);
    }

    bool is_cancelled(const want &mine) const noexcept
    {
        return mine.stopped || mine.epoch != epoch_;
    }

    void become(phase next) noexcept
    {
        phase_ = next;
        changed_.notify_all();
    }

    void queue(want &mine) noexcept
    {
        want **place = &first_;
        while (*place != nullptr)
            place = &(*place)->next;
        *place = &mine;
    }

    void leave_queue(want &mine) noexcept
    {
        want **place = &first_;
        while (*place != &mine)
            place = &(*place)->next;
        *place = mine.next;
        changed_.notify_all();
    }

    /// The library may not have begun with what is to be cancelled.
    void cancel_again(std::unique_lock<std::mutex> &guard) noexcept
    {
        pl_lock_cancel(handle());
        changed_.wait_for(guard, std::chrono::milliseconds(1));
    }

    owner<pl_lock, pl_lock_free> handle_;
    const bool impatient_;
    const pid_t process_ = getpid();
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    phase phase_ = phase::idle;
    std::size_t readers_ = 0;
    steady::time_point since_;
    std::thread::id owner_;
    std::uint64_t epoch_ = 0;
    want *first_ = nullptr;
    want *current_ = nullptr;
};

/// In the child of a fork the memory stays: nobody knows whom its parts wait for.
struct turnstile_deleter {
    void operator()(turnstile *inherited) const noexcept
    {
        if (inherited->is_inherited())
            pl_lock_free(inherited->handle());
        else
            delete inherited;
    }
};

/// The context of a callback that is told of a loss.
template <class Callable> void call_lost(void *context, const pl_loss *raw) noexcept
{
    const loss told{static_cast<loss_reason>(raw->reason), view(raw->message)};
    std::invoke(*static_cast<Callable *>(context), told);
}

/// The context of a callback that is told how an acquire has ended.
template <class Callable>
void call_acquired(void *context, pl_status status, const char *message) noexcept
{
    std::invoke(*static_cast<Callable *>(context), code_of(status), view(message));
}

template <class Callable>
void call_log(void *context, pl_log_level level, const char *message) noexcept
{
    std::invoke(*static_cast<Callable *>(context), static_cast<log_level>(level), view(message));
}

/// A callback of the C interface around a callable that it owns; without one if there is nothing to call.
template <class Callback, class Call, class Callable> Callback callback(Call call, Callable &&callable)
{
    using kept = std::decay_t<Callable>;
    if (is_empty(callable))
        return {nullptr, nullptr, nullptr};
    return {new kept(std::forward<Callable>(callable)), call, destroy<kept>};
}

} // namespace detail

// --- Locks -------------------------------------------------------------------------------------------

class client;

/// A distributed lock: exclusive or shared, for threads of this process and for whoever else uses the
/// same name on the same server.
///
/// It meets the requirements of a SharedTimedMutex, so that std::unique_lock, std::shared_lock,
/// std::lock_guard and std::scoped_lock hold it. Threads may share one object: they take turns in the
/// order in which they came, and readers among them hold it together. Not reentrant. Also known as
/// portalock::lock.
///
/// What differs from a mutex in memory:
/// - Locking can fail: then lock() and its kin throw, also try_lock(), which says `false` only if
///   somebody else holds the lock.
/// - A held lock can be lost: on_lost(), is_held(), verify() and release() tell. unlock() does not.
/// - The lock is released when the object is destroyed, and may be unlocked by another thread than the
///   one that has locked it.
class mutex {
public:
    /// What native_handle() gives.
    using native_handle_type = pl_lock *;

    /// An empty one.
    mutex() noexcept = default;

    /// Names a lock; nothing is sent. `name` is 1 to 1024 bytes of UTF-8. The client may go before the
    /// lock. Throws errc::invalid, errc::forked.
    mutex(const client &owner, const std::string &name, const lock_options &options = {})
    {
        make(owner, name, options).check();
    }

    /// The same, or an empty one.
    mutex(const client &owner, const std::string &name, const lock_options &options,
        std::error_code &ec) noexcept
    {
        make(owner, name, options).store(ec);
    }

    /// The same with the default options, or an empty one.
    mutex(const client &owner, const std::string &name, std::error_code &ec) noexcept
        : mutex(owner, name, lock_options(), ec)
    {
    }

    /// What is held is released, and no callback is called any more. No other thread may be in a member
    /// function, unless it is that of a callback, which is waited for.
    ~mutex() = default;
    /// The other is empty then.
    mutex(mutex &&) noexcept = default;
    /// What was held is released; the other is empty then.
    mutex &operator=(mutex &&) noexcept = default;

    /// Whether it is not empty.
    explicit operator bool() const noexcept { return turns_ != nullptr; }

    // The requirements of the standard. Each may throw what kept the server from being used.

    /// Locks exclusively, and waits without a bound. Throws errc::active if it was this thread that has
    /// locked it exclusively, and it is not unlocked yet.
    void lock() { checked(PL_MODE_EXCLUSIVE, forever); }
    /// The same; `ec` says what went wrong.
    void lock(std::error_code &ec) noexcept { acquire(mode::exclusive, forever, ec); }

    /// One attempt: `false` if somebody else holds the lock.
    bool try_lock() { return tried(PL_MODE_EXCLUSIVE, timeout::of_c(0)); }
    /// `false` also if there is an error, which `ec` tells.
    bool try_lock(std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_EXCLUSIVE, timeout::of_c(0)).granted(ec);
    }

    /// Waits for so long at most: `false` if others held the lock until then. A span of 0 or less is one
    /// attempt.
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &span)
    {
        return tried(PL_MODE_EXCLUSIVE, span);
    }
    /// `false` also if there is an error, which `ec` tells.
    template <class Rep, class Period>
    bool try_lock_for(const std::chrono::duration<Rep, Period> &span, std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_EXCLUSIVE, span).granted(ec);
    }

    /// Waits until then at most. The clock is looked at once: that it is set meanwhile changes nothing.
    template <class Clock, class Duration>
    bool try_lock_until(const std::chrono::time_point<Clock, Duration> &when)
    {
        return tried(PL_MODE_EXCLUSIVE, timeout::of_c(detail::until_ms(when)));
    }
    /// `false` also if there is an error, which `ec` tells.
    template <class Clock, class Duration>
    bool try_lock_until(
        const std::chrono::time_point<Clock, Duration> &when, std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_EXCLUSIVE, timeout::of_c(detail::until_ms(when))).granted(ec);
    }

    /// Releases, and says nothing of a lock that was lost: see release(). Does not block.
    void unlock() noexcept { leave(); }

    /// As lock(), together with other readers. A writer that waits keeps later readers waiting.
    void lock_shared() { checked(PL_MODE_SHARED, forever); }
    /// The same; `ec` says what went wrong.
    void lock_shared(std::error_code &ec) noexcept { acquire(mode::shared, forever, ec); }

    /// As try_lock(), together with other readers.
    bool try_lock_shared() { return tried(PL_MODE_SHARED, timeout::of_c(0)); }
    /// `false` also if there is an error, which `ec` tells.
    bool try_lock_shared(std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_SHARED, timeout::of_c(0)).granted(ec);
    }

    /// As try_lock_for(), together with other readers.
    template <class Rep, class Period>
    bool try_lock_shared_for(const std::chrono::duration<Rep, Period> &span)
    {
        return tried(PL_MODE_SHARED, span);
    }
    /// `false` also if there is an error, which `ec` tells.
    template <class Rep, class Period>
    bool try_lock_shared_for(
        const std::chrono::duration<Rep, Period> &span, std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_SHARED, span).granted(ec);
    }

    /// As try_lock_until(), together with other readers.
    template <class Clock, class Duration>
    bool try_lock_shared_until(const std::chrono::time_point<Clock, Duration> &when)
    {
        return tried(PL_MODE_SHARED, timeout::of_c(detail::until_ms(when)));
    }
    /// `false` also if there is an error, which `ec` tells.
    template <class Clock, class Duration>
    bool try_lock_shared_until(
        const std::chrono::time_point<Clock, Duration> &when, std::error_code &ec) noexcept
    {
        return attempt(PL_MODE_SHARED, timeout::of_c(detail::until_ms(when))).granted(ec);
    }

    /// As unlock().
    void unlock_shared() noexcept { leave(); }

    // What a distributed lock has besides.

    /// Acquires in a mode (mode::none: that of the options), and throws errc::timeout or errc::locked
    /// if others hold it.
    void acquire(mode wanted = mode::none, timeout limit = by_options)
    {
        checked(static_cast<pl_mode>(wanted), limit);
    }
    /// Whether it is held; `ec` says why not.
    bool acquire(mode wanted, timeout limit, std::error_code &ec) noexcept
    {
        detail::outcome done = attempt(static_cast<pl_mode>(wanted), limit);
        done.store(ec);
        return done.ok();
    }
    /// The same in the mode and with the timeout of the options.
    bool acquire(std::error_code &ec) noexcept { return acquire(mode::none, by_options, ec); }

    /// Releases, and throws errc::not_held, or errc::lost if the lock was lost while it was held: it can
    /// be acquired again then. Does not block.
    void release() { leave().check(); }
    /// The same; `ec` says what went wrong.
    void release(std::error_code &ec) noexcept { leave().store(ec); }

    /// The same, and waits until the server has confirmed it. Throws also errc::timeout: not confirmed in
    /// time, and under way all the same.
    void release_wait(timeout limit) { leave(confirmation(limit)).check(); }
    /// The same; `ec` says what went wrong.
    void release_wait(timeout limit, std::error_code &ec) noexcept
    {
        leave(confirmation(limit)).store(ec);
    }

    /// Makes all acquires of this object that are under way end with errc::cancelled, unless they are
    /// granted first. Waits no longer than they need to notice.
    void cancel() noexcept
    {
        if (turns_)
            turns_->cancel();
    }

#ifdef PORTALOCK_HAS_STOP_TOKEN
    /// As lock(), and `false` if a stop is requested (or cancel() called) before it is granted. The thread
    /// that requests it waits until the acquire has noticed, which takes no time of note.
    bool lock(std::stop_token token) { return stoppable(PL_MODE_EXCLUSIVE, forever, token); }
    /// The same, together with other readers.
    bool lock_shared(std::stop_token token) { return stoppable(PL_MODE_SHARED, forever, token); }

    /// As try_lock_for(), and `false` also if a stop is requested.
    template <class Rep, class Period>
    bool try_lock_for(std::chrono::duration<Rep, Period> span, std::stop_token token)
    {
        return stoppable(PL_MODE_EXCLUSIVE, span, token);
    }
    /// The same, together with other readers.
    template <class Rep, class Period>
    bool try_lock_shared_for(std::chrono::duration<Rep, Period> span, std::stop_token token)
    {
        return stoppable(PL_MODE_SHARED, span, token);
    }

    /// Whether it is held; `ec` says why not: errc::cancelled after a request to stop.
    bool acquire(mode wanted, timeout limit, std::stop_token token, std::error_code &ec) noexcept
    {
        detail::outcome done = stopped(static_cast<pl_mode>(wanted), limit, token);
        done.store(ec);
        return done.ok();
    }
#endif

    /// Acquires without a thread that waits: returns at once, and `done(std::error_code,
    /// std::string_view message)` is called when it has ended, unless the lock is destroyed first.
    /// `message` lives as long as the call. Throws errc::active if the object is in use: do not mix this
    /// with threads that lock the same object.
    template <class Callable> void acquire_start(mode wanted, timeout limit, Callable &&done)
    {
        start(wanted, limit, std::forward<Callable>(done)).check();
    }
    /// The same; `ec` says what went wrong.
    template <class Callable>
    void acquire_start(mode wanted, timeout limit, Callable &&done, std::error_code &ec) noexcept
    {
        start(wanted, limit, std::forward<Callable>(done)).store(ec);
    }

    /// The same, and the outcome goes to the client's events: see client::event_fd(), which has to be
    /// called first (else errc::invalid).
    void acquire_start(mode wanted = mode::none, timeout limit = by_options)
    {
        start_c(wanted, limit, nobody()).check();
    }
    /// The same; `ec` says what went wrong.
    void acquire_start(mode wanted, timeout limit, std::error_code &ec) noexcept
    {
        start_c(wanted, limit, nobody()).store(ec);
    }

    /// Sets what is called as `callable(const portalock::loss &)` when the lock is lost while it is held,
    /// in place of what was set before, which is not called any more when this returns. It may use and
    /// destroy this very object. `nullptr`, or an empty std::function, for nothing.
    template <class Callable> void on_lost(Callable &&callable)
    {
        set_on_lost(std::forward<Callable>(callable)).check();
    }
    /// The same; `ec` says what went wrong.
    template <class Callable> void on_lost(Callable &&callable, std::error_code &ec) noexcept
    {
        set_on_lost(std::forward<Callable>(callable)).store(ec);
    }

    /// Whether it is held, as far as this process knows. Does not block and makes no system call.
    bool is_held() const noexcept { return pl_lock_is_held(native_handle()); }

    /// Makes sure that the lock is still held, by a message that has to come back within `limit`. Throws
    /// errc::timeout: it may be lost, and is not given up for that; errc::lost, errc::not_held.
    void verify(timeout limit) { detail::ask(pl_lock_verify, native_handle(), limit.to_c()).check(); }
    /// `false` if not; `ec` says why, errc::timeout included.
    bool verify(timeout limit, std::error_code &ec) noexcept
    {
        detail::outcome done = detail::ask(pl_lock_verify, native_handle(), limit.to_c());
        done.store(ec);
        return done.ok();
    }

    /// How long ago it was last known good, rounded up; nothing if it is not held. Does not block.
    std::optional<std::chrono::milliseconds> verified_age() const noexcept
    {
        const std::int64_t age = pl_lock_verified_age(native_handle());
        if (age < 0)
            return std::nullopt;
        return std::chrono::milliseconds(age);
    }

    /// The fencing token of the exclusive grant that is held: higher than that of every grant before. The
    /// options must have `fencing` set. Throws errc::not_held if there is none.
    std::uint64_t fencing_token() const
    {
        std::uint64_t token = 0;
        detail::ask(pl_lock_fencing_token, native_handle(), &token).check();
        return token;
    }
    /// 0 if there is none.
    std::uint64_t fencing_token(std::error_code &ec) const noexcept
    {
        std::uint64_t token = 0;
        detail::ask(pl_lock_fencing_token, native_handle(), &token).store(ec);
        return token;
    }

    /// The name of the lock; lives as long as the object is not empty.
    std::string_view name() const noexcept { return pl_lock_name(native_handle()); }

    /// The id of the acquire that is under way or held: 32 hex digits; empty if there is none.
    std::string holder_id() const
    {
        char text[PL_HOLDER_ID_SIZE];
        detail::outcome told = detail::ask(pl_lock_holder_id, native_handle(), text, sizeof text);
        return told.ok() ? text : std::string();
    }

    /// The name of its connection, as CLIENT LIST shows it; empty if there is none.
    std::string client_name() const
    {
        std::string text(3 * name().size() + 40, '\0');
        detail::outcome told =
            detail::ask(pl_lock_client_name, native_handle(), text.data(), text.size());
        text.resize(told.ok() ? text.find('\0') : 0);
        return text;
    }

    /// A pointer of the application's own, which it finds again by event::data().
    void data(void *pointer) noexcept { pl_lock_set_data(native_handle(), pointer, nullptr); }
    /// What was set; `nullptr` if nothing was.
    void *data() const noexcept { return pl_lock_data(native_handle()); }

    /// The handle of the C interface, which stays this object's; `nullptr` if it is empty. To acquire and
    /// release by it while threads lock the object goes past their turns.
    native_handle_type native_handle() const noexcept { return turns_ ? turns_->handle() : nullptr; }

private:
    static pl_acquired_callback nobody() noexcept { return {nullptr, nullptr, nullptr}; }

    inline detail::outcome make(
        const client &owner, const std::string &name, const lock_options &options) noexcept;

    detail::want want_of(pl_mode wanted, timeout limit) const noexcept
    {
        const bool as_set = limit.to_c() == PL_DEFAULT;
        return {wanted == PL_MODE_NONE ? mode_ : wanted, as_set ? timeout_ms_ : limit.to_c()};
    }

    detail::outcome attempt(pl_mode wanted, timeout limit) noexcept
    {
        if (!turns_)
            return detail::outcome(PL_INVALID);
        detail::want mine = want_of(wanted, limit);
        return turns_->acquire(mine);
    }

    void checked(pl_mode wanted, timeout limit) { attempt(wanted, limit).check(); }

    bool tried(pl_mode wanted, timeout limit) { return tried(attempt(wanted, limit)); }

    static bool tried(const detail::outcome &done)
    {
        if (done.is(errc::timeout) || done.is(errc::locked))
            return false;
        done.check();
        return true;
    }

    detail::outcome leave(std::int64_t confirm_ms = -1) noexcept
    {
        return turns_ ? turns_->release(confirm_ms) : detail::outcome(PL_INVALID);
    }

    /// It has to have a bound: as long as there may be.
    static std::int64_t confirmation(timeout limit) noexcept
    {
        return limit.to_c() < 0 ? detail::longest_ms : limit.to_c();
    }

#ifdef PORTALOCK_HAS_STOP_TOKEN
    detail::outcome stopped(pl_mode wanted, timeout limit, std::stop_token &token) noexcept
    {
        if (!turns_)
            return detail::outcome(PL_INVALID);
        detail::want mine = want_of(wanted, limit);
        std::stop_callback stop(token, [this, &mine] { turns_->stop(mine); });
        return turns_->acquire(mine);
    }

    bool stoppable(pl_mode wanted, timeout limit, std::stop_token &token)
    {
        detail::outcome done = stopped(wanted, limit, token);
        return !done.is(errc::cancelled) && tried(done);
    }
#endif

    template <class Callable>
    detail::outcome start(mode wanted, timeout limit, Callable &&done)
    {
        using kept = std::decay_t<Callable>;
        return start_c(wanted, limit,
            detail::callback<pl_acquired_callback>(
                detail::call_acquired<kept>, std::forward<Callable>(done)));
    }

    detail::outcome start_c(mode wanted, timeout limit, pl_acquired_callback done) noexcept
    {
        return detail::ask(pl_lock_acquire_start, native_handle(), static_cast<pl_mode>(wanted),
            limit.to_c(), done);
    }

    template <class Callable> detail::outcome set_on_lost(Callable &&callable)
    {
        pl_lost_callback told = {nullptr, nullptr, nullptr};
        using kept = std::decay_t<Callable>;
        if constexpr (!std::is_null_pointer_v<kept>)
            told = detail::callback<pl_lost_callback>(
                detail::call_lost<kept>, std::forward<Callable>(callable));
        return detail::ask(pl_lock_on_lost, native_handle(), told);
    }

    std::unique_ptr<detail::turnstile, detail::turnstile_deleter> turns_;
    pl_mode mode_ = PL_MODE_EXCLUSIVE;
    std::int64_t timeout_ms_ = 5000;
};

/// The same class. It could not itself be called `lock`, since it has a member function of that name.
using lock = mutex;

// --- Who is there ------------------------------------------------------------------------------------

/// A member of a lock's channel, as it describes itself. A view: lives as long as its `holders`. What it
/// does not say is empty.
class holder {
public:
    /// A view of a member of a list of the C interface.
    explicit holder(const pl_holder *raw) noexcept : raw_(raw) {}

    /// 32 hex digits, or `legacy-N` for a member that sends no id.
    std::string_view id() const noexcept { return detail::view(raw_->id); }
    /// What it holds; none while it waits.
    portalock::mode mode() const noexcept { return static_cast<portalock::mode>(raw_->mode); }
    /// What it wants or holds.
    portalock::mode wants() const noexcept { return static_cast<portalock::mode>(raw_->wants); }
    /// Where it stands. Of a foreign reader it cannot be told whether it holds already.
    portalock::state state() const noexcept { return static_cast<portalock::state>(raw_->state); }
    /// Whether it has won an election among foreign waiters.
    std::optional<bool> elected() const noexcept
    {
        return raw_->elected < 0 ? std::nullopt : std::optional<bool>(raw_->elected == 1);
    }
    /// A portalocker 3.2.0 or older, which always holds exclusively.
    bool legacy() const noexcept { return raw_->legacy; }
    /// It knows nothing of the queue: any portalocker.
    bool foreign() const noexcept { return raw_->foreign; }
    /// Its host's name.
    std::string_view host() const noexcept { return detail::view(raw_->host); }
    /// Its label.
    std::string_view label() const noexcept { return detail::view(raw_->label); }
    /// Its process id.
    std::optional<std::int64_t> pid() const noexcept
    {
        return raw_->pid < 0 ? std::nullopt : std::optional<std::int64_t>(raw_->pid);
    }
    /// Since when it is in this state, by its own clock.
    std::optional<std::chrono::system_clock::time_point> since() const noexcept
    {
        if (raw_->since_ms < 0)
            return std::nullopt;
        return std::chrono::system_clock::time_point(std::chrono::milliseconds(raw_->since_ms));
    }

private:
    const pl_holder *raw_;
};

/// The members of a lock's channel at one moment: holders first, then waiters in their order. A range.
class holders {
public:
    /// Reads the list once through.
    class iterator {
    public:
        using iterator_category = std::input_iterator_tag;
        using value_type = holder;
        using difference_type = std::ptrdiff_t;
        using pointer = void;
        using reference = holder;

        iterator() noexcept = default;
        holder operator*() const noexcept { return holder(pl_holders_at(list_, at_)); }
        iterator &operator++() noexcept
        {
            at_++;
            return *this;
        }
        iterator operator++(int) noexcept
        {
            iterator before = *this;
            at_++;
            return before;
        }
        friend bool operator==(const iterator &a, const iterator &b) noexcept
        {
            return a.list_ == b.list_ && a.at_ == b.at_;
        }
        friend bool operator!=(const iterator &a, const iterator &b) noexcept { return !(a == b); }

    private:
        friend class holders;
        iterator(const pl_holders *list, std::size_t at) noexcept : list_(list), at_(at) {}

        const pl_holders *list_ = nullptr;
        std::size_t at_ = 0;
    };
    /// The only kind there is.
    using const_iterator = iterator;
    /// What an iterator leads to.
    using value_type = holder;

    /// An empty list.
    holders() noexcept = default;
    /// Takes a list of the C interface over.
    explicit holders(pl_holders *raw) noexcept : list_(raw) {}

    /// How many there are.
    std::size_t size() const noexcept { return pl_holders_count(list_.get()); }
    /// Whether nobody is there.
    bool empty() const noexcept { return size() == 0; }
    /// `index` must be less than size().
    holder operator[](std::size_t index) const noexcept
    {
        return holder(pl_holders_at(list_.get(), index));
    }
    /// Leads to the first holder, or to the first waiter where nobody holds.
    iterator begin() const noexcept { return {list_.get(), 0}; }
    /// Leads behind the last.
    iterator end() const noexcept { return {list_.get(), size()}; }

private:
    detail::owner<pl_holders, pl_holders_free> list_;
};

/// What client::reap_silent() has done.
struct reaped {
    /// Members that answered.
    std::uint32_t alive = 0;
    /// Connections that were ended.
    std::uint32_t killed = 0;
};

// --- Events ------------------------------------------------------------------------------------------

/// What an event tells of. A later version may add some.
enum class event_type : pl_event_type {
    /// There is no event.
    none = 0,
    /// An acquire that was started has ended: event::code() says how.
    acquired = PL_EVENT_ACQUIRED,
    /// A held lock is lost: event::reason() says why.
    lost = PL_EVENT_LOST,
    /// An acquire has ended the connection of a member that did not answer: event::message() is its id.
    reaped = PL_EVENT_REAPED,
    /// An acquire has trouble with the server and goes on trying.
    trouble = PL_EVENT_TROUBLE,
    /// event::count() events were not kept: see how every lock stands.
    overflow = PL_EVENT_OVERFLOW,
};

/// Something that has happened, or nothing: `if (event)`. Immutable. Strings live as long as it does.
class event {
public:
    event() noexcept = default;
    /// Takes an event of the C interface over.
    explicit event(pl_event *raw) noexcept : event_(raw) {}

    /// Whether it tells of anything.
    explicit operator bool() const noexcept { return event_ != nullptr; }

    /// What it tells of.
    event_type type() const noexcept
    {
        return static_cast<event_type>(pl_event_type_of(event_.get()));
    }
    /// The name of the lock that it is of; empty of an overflow.
    std::string_view name() const noexcept { return pl_event_name(event_.get()); }
    /// Whether it is of this lock.
    bool is_of(const mutex &one) const noexcept
    {
        return event_ && one && pl_event_lock(event_.get()) == one.native_handle();
    }
    /// What mutex::data() has set for the lock; `nullptr` if nothing has, or if the lock is gone.
    void *data() const noexcept { return pl_lock_data(pl_event_lock(event_.get())); }
    /// Of `acquired`: how it has ended, empty if the lock is held. Of `lost`: errc::lost. Of `trouble`:
    /// what is wrong.
    std::error_code code() const noexcept
    {
        return detail::code_of(pl_event_status(event_.get()));
    }
    /// Of `lost`: why; otherwise loss_reason::none.
    loss_reason reason() const noexcept
    {
        return static_cast<loss_reason>(pl_event_loss_reason(event_.get()));
    }
    /// What happened, in one line of UTF-8; may be empty.
    std::string_view message() const noexcept { return pl_event_message(event_.get()); }
    /// Of `overflow`: how many events were not kept. Otherwise 1; 0 if it tells of nothing.
    std::uint64_t count() const noexcept { return pl_event_count(event_.get()); }

private:
    detail::owner<pl_event, pl_event_free> event_;
};

// --- Numbers -----------------------------------------------------------------------------------------

/// What stats counts. All but the gauges only go up. A later version may add some.
enum class stat : pl_stat {
    /// Acquires that were granted.
    acquires = PL_STAT_ACQUIRES,
    /// Acquires that ended with errc::locked.
    locked = PL_STAT_LOCKED,
    /// Acquires that ended with errc::timeout.
    timeouts = PL_STAT_TIMEOUTS,
    /// Acquires that ended with errc::cancelled.
    cancelled = PL_STAT_CANCELLED,
    /// Acquires that ended for another reason.
    failed = PL_STAT_FAILED,
    /// Acquires that had to wait: somebody came first, or did not answer. Counted when they end.
    waits = PL_STAT_WAITS,
    /// Acquires that had to wait and were let in when somebody left.
    hand_overs = PL_STAT_HAND_OVERS,
    /// Held locks that were lost.
    losses = PL_STAT_LOSSES,
    /// Connections of members that did not answer, which this client has ended.
    reaps = PL_STAT_REAPS,
    /// Messages sent to see whether they come back.
    health_checks = PL_STAT_HEALTH_CHECKS,
    /// Connections that were made and logged in.
    connections = PL_STAT_CONNECTIONS,
    /// Locks that are held now: a gauge.
    held = PL_STAT_HELD,
    /// Acquires that are under way now: a gauge.
    waiting = PL_STAT_WAITING,
    /// How long all waits took together, in microseconds.
    wait_sum_us = PL_STAT_WAIT_SUM_US,
    /// The longest wait, in microseconds: a gauge.
    wait_max_us = PL_STAT_WAIT_MAX_US,
};

/// The name of a number, such as "hand_overs"; empty for one that the library does not know.
inline std::string_view name_of(stat which) noexcept
{
    return detail::view(pl_stat_name(static_cast<pl_stat>(which)));
}

/// What a client has done since it was made, as of one moment. Immutable.
class stats {
public:
    /// How many waits did not exceed a bound: cumulative, as Prometheus wants it.
    struct bucket {
        /// The bound.
        std::chrono::microseconds bound;
        /// How many there were.
        std::uint64_t count;
    };

    /// An empty one: all is zero.
    stats() noexcept = default;
    /// Takes the numbers of the C interface over.
    explicit stats(pl_stats *raw) noexcept : stats_(raw) {}

    /// Whether it is not empty.
    explicit operator bool() const noexcept { return stats_ != nullptr; }

    /// One of the numbers.
    std::uint64_t operator[](stat which) const noexcept
    {
        return pl_stats_value(stats_.get(), static_cast<pl_stat>(which));
    }
    /// What so many percent of the waits, 0 to 100, did not exceed, 1 % at most above the true value.
    std::chrono::microseconds wait_percentile(double percent) const noexcept
    {
        return std::chrono::microseconds(pl_stats_wait_percentile_us(stats_.get(), percent));
    }
    /// How many buckets there are, without that of all waits, which is stat::waits.
    std::size_t wait_buckets() const noexcept { return pl_stats_wait_buckets(stats_.get()); }
    /// A bucket; `index` must be less than wait_buckets().
    bucket wait_bucket(std::size_t index) const noexcept
    {
        return {std::chrono::microseconds(pl_stats_wait_bound_us(stats_.get(), index)),
            pl_stats_wait_bucket(stats_.get(), index)};
    }

private:
    detail::owner<pl_stats, pl_stats_free> stats_;
};

// --- Clients -----------------------------------------------------------------------------------------

/// A Redis server to hold locks on. Locks made from it go on working when it is destroyed, but then
/// there are no events any more.
class client {
public:
    /// What native_handle() gives.
    using native_handle_type = pl_client *;

    /// An empty one.
    client() noexcept = default;

    /// Nothing is connected yet. `url` is `redis://[user[:password]@]host[:port][/db]` or
    /// `unix:///path[?db=N&user=...&pass=...]`, or as docs/connecting.md has it. Throws errc::invalid,
    /// errc::tls, errc::unsupported, errc::forked.
    explicit client(const std::string &url, const client_options &options = {})
    {
        make(url, options).check();
    }

    /// The same, or an empty one.
    client(const std::string &url, const client_options &options, std::error_code &ec) noexcept
    {
        make(url, options).store(ec);
    }
    /// The same with the default options, or an empty one.
    client(const std::string &url, std::error_code &ec) noexcept : client(url, client_options(), ec)
    {
    }

    /// Whether it is not empty.
    explicit operator bool() const noexcept { return client_ != nullptr; }

    /// Connects, logs in and waits for an answer: how long that took. Throws what keeps the server from
    /// being used.
    std::chrono::microseconds ping(timeout limit) const
    {
        std::error_code ignored;
        return ping_checked(limit, nullptr, ignored);
    }
    /// 0 if there is an error.
    std::chrono::microseconds ping(timeout limit, std::error_code &ec) const noexcept
    {
        return ping_checked(limit, &ec, ec);
    }

    /// Who is on a lock's channel, asked over a connection of its own. Throws errc::unclear if somebody
    /// is there who does not answer within `limit`, which is not the same as nobody.
    holders probe_holders(const std::string &name, timeout limit) const
    {
        pl_holders *list = nullptr;
        probe(name, limit, &list).check();
        return holders(list);
    }
    /// An empty list if there is an error.
    holders probe_holders(
        const std::string &name, timeout limit, std::error_code &ec) const noexcept
    {
        pl_holders *list = nullptr;
        probe(name, limit, &list).store(ec);
        return holders(list);
    }

    /// Ends the connections of those members of a lock's channel that do not answer in four fifths of
    /// `limit`. An acquire does this by itself where it has to. Throws errc::denied, and others.
    portalock::reaped reap_silent(const std::string &name, timeout limit) const
    {
        portalock::reaped done;
        reap(name, limit, done).check();
        return done;
    }
    /// Nobody if there is an error.
    portalock::reaped reap_silent(
        const std::string &name, timeout limit, std::error_code &ec) const noexcept
    {
        portalock::reaped done;
        reap(name, limit, done).store(ec);
        return done;
    }

    /// Begins to keep the events of all locks of this client, up to 4096, and gives a descriptor for
    /// `poll` and event loops: it can be read as long as there is an event. Nobody may read or close it; it
    /// is open until the client is destroyed.
    int event_fd() const
    {
        int fd = -1;
        detail::ask(pl_client_event_fd, native_handle(), &fd).check();
        return fd;
    }
    /// -1 if there is an error.
    int event_fd(std::error_code &ec) const noexcept
    {
        int fd = -1;
        detail::ask(pl_client_event_fd, native_handle(), &fd).store(ec);
        return fd;
    }

    /// Fetches the oldest event, and waits for one for so long at most; empty if there is none.
    event next_event(timeout limit) const
    {
        pl_event *next = nullptr;
        detail::ask(pl_client_next_event, native_handle(), limit.to_c(), &next).check();
        return event(next);
    }
    /// Empty also if there is an error.
    event next_event(timeout limit, std::error_code &ec) const noexcept
    {
        pl_event *next = nullptr;
        detail::ask(pl_client_next_event, native_handle(), limit.to_c(), &next).store(ec);
        return event(next);
    }

    /// What it has done so far, with the locks made from it. Sends nothing and does not block.
    portalock::stats stats() const
    {
        pl_stats *read = nullptr;
        detail::ask(pl_client_stats, native_handle(), &read).check();
        return portalock::stats(read);
    }
    /// Empty if there is an error.
    portalock::stats stats(std::error_code &ec) const noexcept
    {
        pl_stats *read = nullptr;
        detail::ask(pl_client_stats, native_handle(), &read).store(ec);
        return portalock::stats(read);
    }

    /// The handle of the C interface, which stays this object's; `nullptr` if it is empty.
    native_handle_type native_handle() const noexcept { return client_.get(); }

private:
    detail::outcome make(const std::string &url, const client_options &options) noexcept
    {
        detail::outcome wrong = options.wrong();
        if (!wrong.ok())
            return wrong;
        pl_client *made = nullptr;
        detail::outcome done =
            detail::ask(pl_client_new, detail::whole(url), options.native_handle(), &made);
        client_.reset(made);
        return done;
    }

    std::chrono::microseconds ping_checked(
        timeout limit, std::error_code *wanted, std::error_code &ec) const
    {
        std::int64_t us = 0;
        detail::outcome done = detail::ask(pl_client_ping, native_handle(), limit.to_c(), &us);
        if (wanted != nullptr)
            done.store(ec);
        else
            done.check();
        return std::chrono::microseconds(us);
    }

    detail::outcome probe(
        const std::string &name, timeout limit, pl_holders **list) const noexcept
    {
        return detail::ask(
            pl_probe_holders, native_handle(), detail::whole(name), limit.to_c(), list);
    }

    detail::outcome reap(
        const std::string &name, timeout limit, portalock::reaped &done) const noexcept
    {
        return detail::ask(pl_reap_silent, native_handle(), detail::whole(name), limit.to_c(),
            &done.alive, &done.killed);
    }

    detail::owner<pl_client, pl_client_free> client_;
};

inline detail::outcome mutex::make(
    const client &owner, const std::string &name, const lock_options &options) noexcept
{
    detail::outcome wrong = options.wrong();
    if (!wrong.ok())
        return wrong;
    pl_lock *made = nullptr;
    detail::outcome done = detail::ask(pl_lock_new, owner.native_handle(), detail::whole(name),
        options.native_handle(), &made);
    if (!done.ok())
        return done;
    turns_.reset(new detail::turnstile(made, options.fail_when_locked_));
    mode_ = options.mode_;
    timeout_ms_ = options.timeout_ms_;
    return done;
}

// --- The process -------------------------------------------------------------------------------------

/// Sets what takes the lines of the library's log, as `callable(log_level, std::string_view)`, for the
/// whole process. It may be called from several threads at once, and must not call the library. Unlike
/// other callables it is kept until the process ends or another is set. `ec` is errc::unsupported where the
/// program has a logger of Rust's `log` crate.
template <class Callable>
void set_log_handler(log_level level, Callable &&callable, std::error_code &ec) noexcept
{
    using kept = std::decay_t<Callable>;
    auto handler =
        detail::callback<pl_log_handler>(detail::call_log<kept>, std::forward<Callable>(callable));
    detail::ask(pl_set_log_handler, static_cast<pl_log_level>(level), handler).store(ec);
}

/// The same, and throws what went wrong.
template <class Callable> void set_log_handler(log_level level, Callable &&callable)
{
    using kept = std::decay_t<Callable>;
    auto handler =
        detail::callback<pl_log_handler>(detail::call_log<kept>, std::forward<Callable>(callable));
    detail::ask(pl_set_log_handler, static_cast<pl_log_level>(level), handler).check();
}

/// The version of the library that runs, such as "0.1.0". That of the header: PORTALOCK_VERSION_STRING.
inline std::string_view version() noexcept { return pl_version(); }

} // namespace portalock

#endif /* PORTALOCK_HPP */
