/* What the threads of schedules.c may do, and what may come of it. */
#ifndef ACTIONS_H
#define ACTIONS_H

/* --- What calls may answer --------------------------------------------------------------------- */

#define MAY(status) (1u << (status))

/* Any handle may have been freed by another thread. */
enum {
    ALWAYS = MAY(PL_OK) | MAY(PL_INVALID),
    /* Connections are killed at any moment, and the server is busy. */
    NETWORK = MAY(PL_DISCONNECTED) | MAY(PL_UNRESPONSIVE),
    ACQUIRE = ALWAYS | NETWORK | MAY(PL_TIMEOUT) | MAY(PL_LOCKED) | MAY(PL_ACTIVE) |
              MAY(PL_CANCELLED),
    RELEASE = ALWAYS | MAY(PL_NOT_HELD) | MAY(PL_LOST),
};

/* A call that answers one of `set`, and whose error says the same. */
#define ONE_OF(set, call)                                                                          \
    do {                                                                                           \
        pl_error *error = (pl_error *)&check_poison;                                               \
        pl_status answer = (call);                                                                 \
        judge(#call, answer, error, (set));                                                        \
    } while (0)

static void judge(const char *call, pl_status answer, pl_error *error, unsigned set)
{
    if (!(set & MAY(answer))) {
        fprintf(stderr, "%s answers %s: %s\n", call, pl_status_name(answer),
                pl_error_message(error));
        abort();
    }
    CHECK(pl_error_status(error) == answer);
    CHECK((error == NULL) == (answer == PL_OK));
    pl_error_free(error);
}

/* --- Lost callbacks ---------------------------------------------------------------------------- */

static void act(uint64_t *dice);

struct watcher {
    atomic_uint alive;
    uint64_t dice;
};

enum { ALIVE = 0xa11fe };

static void on_lost(void *context, const pl_loss *loss)
{
    struct watcher *watcher = context;
    CHECK(atomic_load(&watcher->alive) == ALIVE);
    CHECK(loss->reason >= PL_LOSS_DISCONNECTED && loss->reason != PL_LOSS_INTERNAL);
    CHECK(loss->message[0] != '\0');
    atomic_fetch_add(&callbacks_called, 1);
    for (unsigned i = below(&watcher->dice, 4); i > 0; i--)
        act(&watcher->dice);
    CHECK(atomic_load(&watcher->alive) == ALIVE);
}

static void on_acquired(void *context, pl_status status, const char *message)
{
    struct watcher *watcher = context;
    CHECK(atomic_load(&watcher->alive) == ALIVE);
    CHECK((ACQUIRE & ~MAY(PL_ACTIVE) & MAY(status)) && (message[0] == '\0') == (status == PL_OK));
    atomic_fetch_add(&callbacks_called, 1);
    for (unsigned i = below(&watcher->dice, 3); i > 0; i--)
        act(&watcher->dice);
}

static void on_drop(void *context)
{
    struct watcher *watcher = context;
    CHECK(atomic_exchange(&watcher->alive, 0) == ALIVE);
    atomic_fetch_add(&callbacks_dropped, 1);
    free(watcher);
}

/* --- Actions ----------------------------------------------------------------------------------- */

static pl_lock *any_lock(uint64_t *dice)
{
    return atomic_load(&locks[below(dice, LOCKS)]);
}

static pl_client *any_client(uint64_t *dice)
{
    return atomic_load(&clients[below(dice, CLIENTS)]);
}

static const char *any_name(uint64_t *dice)
{
    return NAMES[below(dice, 2)];
}

static int64_t soon(uint64_t *dice)
{
    return below(dice, 20);
}

static void acquire(uint64_t *dice)
{
    ONE_OF(ACQUIRE, pl_lock_acquire(any_lock(dice), soon(dice), &error));
}

static void acquire_shared(uint64_t *dice)
{
    ONE_OF(ACQUIRE, pl_lock_acquire_shared(any_lock(dice), soon(dice), &error));
}

static void acquire_mode(uint64_t *dice)
{
    pl_mode mode = below(dice, 2) ? PL_MODE_SHARED : PL_MODE_EXCLUSIVE;
    ONE_OF(ACQUIRE, pl_lock_acquire_mode(any_lock(dice), mode, soon(dice), &error));
}

/* Ends with a grant, or when somebody cancels it, or frees the lock. */
static void acquire_patiently(uint64_t *dice)
{
    int64_t how_long = below(dice, 2) ? PL_WAIT_FOREVER : PL_DEFAULT;
    ONE_OF(ACQUIRE, pl_lock_acquire(any_lock(dice), how_long, &error));
}

static void try_acquire(uint64_t *dice)
{
    ONE_OF(ACQUIRE, pl_lock_try_acquire(any_lock(dice), &error));
}

static void try_acquire_shared(uint64_t *dice)
{
    ONE_OF(ACQUIRE, pl_lock_try_acquire_shared(any_lock(dice), &error));
}

static void cancel(uint64_t *dice)
{
    pl_lock_cancel(any_lock(dice));
}

static void release(uint64_t *dice)
{
    ONE_OF(RELEASE, pl_lock_release(any_lock(dice), &error));
}

static void release_wait(uint64_t *dice)
{
    unsigned set = RELEASE | NETWORK | MAY(PL_TIMEOUT);
    ONE_OF(set, pl_lock_release_wait(any_lock(dice), soon(dice), &error));
}

static void watch(uint64_t *dice)
{
    struct watcher *watcher = malloc(sizeof *watcher);
    atomic_init(&watcher->alive, ALIVE);
    watcher->dice = roll(dice);
    atomic_fetch_add(&callbacks_set, 1);
    pl_lost_callback callback = {watcher, on_lost, on_drop};
    ONE_OF(ALWAYS, pl_lock_on_lost(any_lock(dice), callback, &error));
}

static void unwatch(uint64_t *dice)
{
    pl_lost_callback none = {NULL, NULL, NULL};
    ONE_OF(ALWAYS, pl_lock_on_lost(any_lock(dice), none, &error));
}

/* Ends with a callback, or with an event if there is a queue, unless the lock is freed. */
static void start(uint64_t *dice)
{
    struct watcher *watcher = malloc(sizeof *watcher);
    atomic_init(&watcher->alive, ALIVE);
    watcher->dice = roll(dice);
    atomic_fetch_add(&callbacks_set, 1);
    pl_acquired_callback callback = {watcher, on_acquired, on_drop};
    int64_t how_long = below(dice, 8) ? soon(dice) : PL_WAIT_FOREVER;
    ONE_OF(ALWAYS | MAY(PL_ACTIVE), pl_lock_acquire_start(any_lock(dice), (pl_mode)below(dice, 3),
                                                          how_long, callback, &error));
}

static void start_for_the_queue(uint64_t *dice)
{
    pl_acquired_callback none = {NULL, NULL, NULL};
    ONE_OF(ALWAYS | MAY(PL_ACTIVE),
           pl_lock_acquire_start(any_lock(dice), PL_MODE_NONE, soon(dice), none, &error));
}

static void begin_here(uint64_t *dice)
{
    bool held;
    ONE_OF(ACQUIRE, pl_lock_acquire_begin(any_lock(dice), PL_MODE_NONE, soon(dice), &held, &error));
}

static void open_queue(uint64_t *dice)
{
    int fd = -1;
    ONE_OF(ALWAYS, pl_client_event_fd(any_client(dice), &fd, &error));
}

static void fetch(uint64_t *dice)
{
    pl_event *event = NULL;
    ONE_OF(ALWAYS, pl_client_next_event(any_client(dice), soon(dice), &event, &error));
    if (event == NULL)
        return;
    pl_lock *lock = pl_event_lock(event);
    CHECK(pl_event_type_of(event) >= PL_EVENT_ACQUIRED);
    CHECK((lock == NULL) == (pl_event_type_of(event) == PL_EVENT_OVERFLOW));
    /* Another thread may have freed it since. One that lives alone is nobody's to release. */
    if (pl_event_type_of(event) == PL_EVENT_ACQUIRED)
        ONE_OF(RELEASE, pl_lock_release(lock, &error));
    pl_event_free(event);
}

static void verify(uint64_t *dice)
{
    pl_lock *lock = any_lock(dice);
    CHECK(pl_lock_verified_age(lock) >= -1);
    ONE_OF(RELEASE | MAY(PL_TIMEOUT), pl_lock_verify(lock, soon(dice), &error));
}

static void look(uint64_t *dice)
{
    pl_lock *lock = any_lock(dice);
    char id[PL_HOLDER_ID_SIZE], name[128];
    uint64_t token;
    unsigned set = ALWAYS | MAY(PL_NOT_HELD);
    (void)pl_lock_is_held(lock);
    ONE_OF(set, pl_lock_holder_id(lock, id, sizeof id, &error));
    ONE_OF(set, pl_lock_client_name(lock, name, sizeof name, &error));
    ONE_OF(set, pl_lock_fencing_token(lock, &token, &error));
}

static pl_lock *new_lock(uint64_t *dice)
{
    pl_lock *lock = NULL;
    pl_lock_options *options = NULL;
    ANSWERS(PL_OK, pl_lock_options_new(&options, &error));
    ANSWERS(PL_OK, pl_lock_options_set_fencing(options, below(dice, 2), &error));
    ANSWERS(PL_OK, pl_lock_options_set_timeout(options, 1 + below(dice, 100), &error));
    ANSWERS(PL_OK, pl_lock_options_set_health_check_interval(options, 100, &error));
    /* The client may be freed at any moment: then another one has to do. */
    while (!lock)
        ONE_OF(ALWAYS, pl_lock_new(any_client(dice), any_name(dice), options, &lock, &error));
    pl_lock_options_free(options);
    return lock;
}

static void replace_lock(uint64_t *dice)
{
    pl_lock *fresh = new_lock(dice);
    pl_lock_free(atomic_exchange(&locks[below(dice, LOCKS)], fresh));
}

static pl_client *new_client(uint64_t *dice)
{
    pl_client *client = NULL;
    pl_client_options *options = NULL;
    ANSWERS(PL_OK, pl_client_options_new(&options, &error));
    ANSWERS(PL_OK, pl_client_options_set_pool_size(options, below(dice, 4), &error));
    ANSWERS(PL_OK, pl_client_options_set_shared_connection(options, below(dice, 2), &error));
    ANSWERS(PL_OK, pl_client_new(url, options, &client, &error));
    pl_client_options_free(options);
    return client;
}

static void replace_client(uint64_t *dice)
{
    pl_client *fresh = new_client(dice);
    pl_client_free(atomic_exchange(&clients[below(dice, CLIENTS)], fresh));
}

static void ask_who(uint64_t *dice)
{
    pl_holders *holders = NULL;
    unsigned set = ALWAYS | NETWORK | MAY(PL_UNCLEAR) | MAY(PL_TIMEOUT);
    ONE_OF(set, pl_probe_holders(any_client(dice), any_name(dice), soon(dice), &holders, &error));
    for (size_t i = 0; i < pl_holders_count(holders); i++)
        CHECK(strlen(pl_holders_at(holders, i)->id) == 32);
    pl_holders_free(holders);
}

/* Under load this ends the connections of the living, too. */
static void reap(uint64_t *dice)
{
    const pl_client *client = any_client(dice);
    uint32_t alive, killed;
    ONE_OF(ALWAYS | NETWORK | MAY(PL_TIMEOUT),
           pl_reap_silent(client, any_name(dice), 1 + soon(dice), &alive, &killed, &error));
}

static void ping(uint64_t *dice)
{
    int64_t rtt;
    ONE_OF(ALWAYS | NETWORK | MAY(PL_TIMEOUT),
           pl_client_ping(any_client(dice), soon(dice), &rtt, &error));
}

static void read_stats(uint64_t *dice)
{
    pl_stats *stats = NULL;
    ONE_OF(ALWAYS, pl_client_stats(any_client(dice), &stats, &error));
    size_t last = pl_stats_wait_buckets(stats);
    int64_t median = pl_stats_wait_percentile_us(stats, 50);
    CHECK(median >= 0 && median <= (int64_t)pl_stats_value(stats, PL_STAT_WAIT_MAX_US));
    CHECK(pl_stats_value(stats, PL_STAT_HAND_OVERS) <= pl_stats_value(stats, PL_STAT_ACQUIRES));
    CHECK(pl_stats_wait_bound_us(stats, last) == -1);
    CHECK(pl_stats_wait_bucket(stats, last) == pl_stats_value(stats, PL_STAT_WAITS));
    CHECK(strcmp(pl_stat_name(PL_STAT_WAITS), "waits") == 0);
    pl_stats_free(stats);
}

/* A lock that nobody else knows: what it answers can be told exactly, but for losses. */
static void live_alone(uint64_t *dice)
{
    pl_lock *lock = new_lock(dice);
    pl_error *error = NULL;
    pl_status answer = pl_lock_acquire(lock, 50, &error);
    judge("pl_lock_acquire, alone", answer, error, ACQUIRE & ~MAY(PL_INVALID) & ~MAY(PL_ACTIVE));
    if (answer == PL_OK) {
        atomic_fetch_add(&grants, 1);
        ONE_OF(MAY(PL_OK) | MAY(PL_LOST), pl_lock_release(lock, &error));
    } else {
        ANSWERS(PL_NOT_HELD, pl_lock_release(lock, &error));
    }
    pl_lock_free(lock);
}

static void rest(uint64_t *dice)
{
    check_sleep(below(dice, 5));
}

static const struct action {
    unsigned weight;
    const char *name;
    void (*act)(uint64_t *dice);
} ACTIONS[] = {
    {20, "acquire", acquire},
    {10, "acquire shared", acquire_shared},
    {5, "acquire in a mode", acquire_mode},
    {2, "acquire patiently", acquire_patiently},
    {5, "try to acquire", try_acquire},
    {5, "try to acquire shared", try_acquire_shared},
    {8, "cancel", cancel},
    {12, "release", release},
    {8, "release and wait", release_wait},
    {8, "set a callback", watch},
    {4, "take a callback back", unwatch},
    {10, "look", look},
    {12, "start an acquire", start},
    {4, "start one for the queue", start_for_the_queue},
    {4, "begin one", begin_here},
    {1, "open an event queue", open_queue},
    {6, "fetch an event", fetch},
    {5, "verify", verify},
    {4, "replace a lock", replace_lock},
    {2, "replace a client", replace_client},
    {3, "ask who is there", ask_who},
    {1, "reap the silent", reap},
    {2, "ping the server", ping},
    {3, "read the numbers", read_stats},
    {6, "live alone", live_alone},
    {5, "rest", rest},
};

#endif
