/* Threads and lost callbacks do whatever they like, at random and again with the same seed, with a
 * few locks and clients that are made and freed all the time, while connections are killed. Nothing
 * may crash, hang, leak, or answer what it should not. argv[1] is the server's URL.
 *
 *   PORTALOCK_SCHEDULES_SECONDS  how long (default 3)
 *   PORTALOCK_SCHEDULES_SEED     the seed (default: of the time)
 *   PORTALOCK_SCHEDULES_STUCK    how many seconds one call may take (default 30)
 *
 * To have a function called more, write an action and put it into the table below. */
#include "schedules.h"
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <unistd.h>

enum { THREADS = 8, LOCKS = 4, CLIENTS = 2, STAGES = 16 };

static const char *url;
static const char *const NAMES[] = {"schedule one", "schedule-two"};
static _Atomic(pl_client *) clients[CLIENTS];
static _Atomic(pl_lock *) locks[LOCKS];
static atomic_bool over;
static atomic_int running = THREADS;
static atomic_long callbacks_set, callbacks_called, callbacks_dropped, grants;

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
    CHECK(loss->reason >= PL_LOSS_DISCONNECTED && loss->reason < PL_LOSS_INTERNAL);
    CHECK(loss->message[0] != '\0');
    atomic_fetch_add(&callbacks_called, 1);
    for (unsigned i = below(&watcher->dice, 4); i > 0; i--)
        act(&watcher->dice);
    CHECK(atomic_load(&watcher->alive) == ALIVE);
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
    {4, "replace a lock", replace_lock},
    {2, "replace a client", replace_client},
    {3, "ask who is there", ask_who},
    {1, "reap the silent", reap},
    {2, "ping the server", ping},
    {6, "live alone", live_alone},
    {5, "rest", rest},
};

/* --- Who does what, and since when ------------------------------------------------------------- */

/* One for each thread that acts, the one that runs callbacks included. */
static struct stage {
    _Atomic(const struct action *) action;
    atomic_llong since;
} stages[STAGES];

static _Thread_local struct stage *stage;

static const struct action *any_action(uint64_t *dice)
{
    static const size_t count = sizeof ACTIONS / sizeof *ACTIONS;
    unsigned sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += ACTIONS[i].weight;
    unsigned left = below(dice, sum);
    const struct action *action = ACTIONS;
    while (left >= action->weight)
        left -= action++->weight;
    return action;
}

static struct stage *take_stage(void)
{
    static atomic_uint taken;
    unsigned mine = atomic_fetch_add(&taken, 1);
    CHECK(mine < STAGES);
    return &stages[mine];
}

static void act(uint64_t *dice)
{
    if (!stage)
        stage = take_stage();
    /* An action may come to run callbacks of its own accord. */
    const struct action *outer = atomic_load(&stage->action), *action = any_action(dice);
    atomic_store(&stage->since, check_ms());
    atomic_store(&stage->action, action);
    action->act(dice);
    atomic_store(&stage->since, check_ms());
    atomic_store(&stage->action, outer);
}

static void *run(void *seed)
{
    uint64_t dice = *(uint64_t *)seed;
    while (!atomic_load(&over))
        act(&dice);
    atomic_fetch_sub(&running, 1);
    return NULL;
}

/* Ends the program if somebody is stuck. */
static void look_after(long seconds)
{
    for (int i = 0; i < STAGES; i++) {
        const struct action *action = atomic_load(&stages[i].action);
        if (action && check_ms() - atomic_load(&stages[i].since) > seconds * 1000) {
            fprintf(stderr, "stuck for more than %ld s: %s\n", seconds, action->name);
            abort();
        }
    }
}

/* --- Beginning and end ------------------------------------------------------------------------- */

static int open_files(void)
{
    DIR *dir = opendir("/proc/self/fd");
    CHECK(dir != NULL);
    int count = 0;
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* Waits until all threads have seen that it is over: whoever waits for ever has to be told. */
static void finish(const pthread_t *threads, long stuck)
{
    atomic_store(&over, true);
    while (atomic_load(&running) > 0) {
        for (int i = 0; i < LOCKS; i++)
            pl_lock_cancel(atomic_load(&locks[i]));
        look_after(stuck);
        check_sleep(5);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
}

static void free_all(void)
{
    for (int i = 0; i < LOCKS; i++)
        pl_lock_free(atomic_exchange(&locks[i], NULL));
    for (int i = 0; i < CLIENTS; i++)
        pl_client_free(atomic_exchange(&clients[i], NULL));
}

/* A callback that was running may still have made a lock. */
static void settle(int files, long stuck)
{
    long long until = check_ms() + stuck * 1000;
    for (;;) {
        free_all();
        bool dropped = atomic_load(&callbacks_dropped) == atomic_load(&callbacks_set);
        if (dropped && open_files() <= files)
            return;
        if (check_ms() > until) {
            fprintf(stderr, "%ld callbacks set, %ld dropped; %d files open, %d before\n",
                    atomic_load(&callbacks_set), atomic_load(&callbacks_dropped), open_files(),
                    files);
            abort();
        }
        check_sleep(20);
    }
}

/* What all that has left behind is in nobody's way. */
static void check_aftermath(void)
{
    pl_client *client = check_client(url);
    for (int i = 0; i < 2; i++) {
        pl_lock *last = check_lock(client, NAMES[i]);
        pl_holders *left = NULL;
        ANSWERS(PL_OK, pl_lock_acquire(last, 10000, &error));
        ANSWERS(PL_OK, pl_probe_holders(client, NAMES[i], 5000, &left, &error));
        CHECK(pl_holders_count(left) == 1);
        pl_holders_free(left);
        pl_lock_free(last);
    }
    pl_client_free(client);
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    url = argv[1];
    long seconds = number_from("PORTALOCK_SCHEDULES_SECONDS", 3);
    long stuck = number_from("PORTALOCK_SCHEDULES_STUCK", 30);
    uint64_t seed = (uint64_t)number_from("PORTALOCK_SCHEDULES_SEED", (long)time(NULL));
    uint64_t dice = seed;
    fprintf(stderr, "schedules: PORTALOCK_SCHEDULES_SEED=%llu\n", (unsigned long long)seed);

    /* What the library keeps for ever is there from here on. */
    check_aftermath();
    int files = open_files();
    pthread_t threads[THREADS];
    uint64_t seeds[THREADS];
    for (int i = 0; i < CLIENTS; i++)
        atomic_store(&clients[i], new_client(&dice));
    for (int i = 0; i < LOCKS; i++)
        atomic_store(&locks[i], new_lock(&dice));
    for (int i = 0; i < THREADS; i++) {
        seeds[i] = roll(&dice);
        CHECK(pthread_create(&threads[i], NULL, run, &seeds[i]) == 0);
    }
    for (long long until = check_ms() + seconds * 1000; check_ms() < until;) {
        check_sleep(5 + below(&dice, 60));
        check_ask("kill subscribers");
        look_after(stuck);
    }
    finish(threads, stuck);
    settle(files, stuck);
    check_aftermath();
    fprintf(stderr, "schedules: %ld callbacks set, %ld called; %ld grants to those alone\n",
            atomic_load(&callbacks_set), atomic_load(&callbacks_called), atomic_load(&grants));
    return 0;
}
