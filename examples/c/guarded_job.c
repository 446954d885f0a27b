/*
 * A job of which only one may run at a time, on however many machines.
 *
 *   guarded_job URL NAME MILLISECONDS [LABEL [JOURNAL]]
 *
 * Waits for its turn for as long as it takes, works for so many milliseconds, and leaves. Says what
 * happens, with the time of the monotonic clock. With JOURNAL, it appends a line to that file when it
 * enters and when it leaves, so that somebody else can tell whether two were ever inside together.
 *
 * Exit status: 0 done, 1 the lock could not be had, 2 wrong usage, 3 the lock was lost on the way.
 */
#include <fcntl.h>
#include <portalock.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static atomic_bool lost;

static struct timespec now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time;
}

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    char words[512];
    struct timespec time = now();
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(words, sizeof words, format, arguments);
    va_end(arguments);
    printf("%ld.%06ld guarded_job[%d] %s\n", (long)time.tv_sec, time.tv_nsec / 1000, (int)getpid(),
           words);
}

/* One write to a file opened for appending is one line, however many processes write. */
static void note(int journal, const char *event)
{
    char line[96];
    struct timespec time = now();
    long long ns = time.tv_sec * 1000000000LL + time.tv_nsec;
    int length = snprintf(line, sizeof line, "%s %d %lld\n", event, (int)getpid(), ns);
    if (journal >= 0 && write(journal, line, (size_t)length) != length)
        say("the journal cannot be written");
}

/* Comes from another thread, and may come late: what it was told, the release tells too. */
static void on_lost(void *context, const pl_loss *loss)
{
    (void)context;
    (void)loss;
    atomic_store(&lost, true);
}

/* Who is there, to be printed while we wait. That nobody could tell is worth no error here. */
static void say_who_is_there(const pl_client *client, const char *name)
{
    pl_holders *holders = NULL;
    if (pl_probe_holders(client, name, 500, &holders, NULL) != PL_OK)
        return;
    for (size_t i = 0; i < pl_holders_count(holders); i++) {
        const pl_holder *holder = pl_holders_at(holders, i);
        say("  sees %s (pid %lld on %s) %s", holder->label ? holder->label : holder->id,
            (long long)holder->pid, holder->host ? holder->host : "some host",
            holder->state == PL_STATE_HELD ? "hold it" : "wait");
    }
    pl_holders_free(holders);
}

static int fail(const char *what, pl_error *error)
{
    say("%s: %s", what, pl_error_message(error));
    pl_error_free(error);
    return 1;
}

/* Works in small steps and looks after each whether it may go on. */
static int work(pl_lock *lock, long milliseconds, int journal)
{
    pl_error *error = NULL;
    struct timespec step = {0, 1000000};
    struct timespec begun = now(), time = begun;

    say("holds");
    note(journal, "enter");
    while ((time.tv_sec - begun.tv_sec) * 1000 + (time.tv_nsec - begun.tv_nsec) / 1000000 <
           milliseconds) {
        if (atomic_load(&lost) || !pl_lock_is_held(lock)) {
            say("stops in the middle of its work, since others may have begun theirs");
            pl_lock_release(lock, &error);
            fail("LOST the lock", error);
            return 3;
        }
        nanosleep(&step, NULL);
        time = now();
    }
    note(journal, "leave");
    if (pl_lock_release(lock, &error) != PL_OK) {
        fail("released too late", error);
        return 3;
    }
    say("done");
    return 0;
}

static int run(pl_client *client, pl_lock *lock, const char *name, long milliseconds, int journal)
{
    pl_error *error = NULL;
    pl_lost_callback callback = {NULL, on_lost, NULL};

    if (pl_lock_on_lost(lock, callback, &error) != PL_OK)
        return fail("no callback", error);
    if (pl_lock_try_acquire(lock, NULL) != PL_OK) {
        say("waits");
        say_who_is_there(client, name);
        if (pl_lock_acquire(lock, PL_WAIT_FOREVER, &error) != PL_OK)
            return fail("cannot acquire", error);
    }
    return work(lock, milliseconds, journal);
}

int main(int argc, char **argv)
{
    pl_error *error = NULL;
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_lock_options *options = NULL;
    int status = 1;

    if (argc < 4 || argc > 6) {
        fprintf(stderr, "usage: guarded_job URL NAME MILLISECONDS [LABEL [JOURNAL]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    int journal = argc > 5 ? open(argv[5], O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644) : -1;

    if (pl_lock_options_new(&options, &error) != PL_OK ||
        (argc > 4 && pl_lock_options_set_label(options, argv[4], &error) != PL_OK) ||
        pl_client_new(argv[1], NULL, &client, &error) != PL_OK ||
        pl_lock_new(client, argv[2], options, &lock, &error) != PL_OK)
        fail("cannot begin", error);
    else
        status = run(client, lock, argv[2], atol(argv[3]), journal);

    pl_lock_options_free(options);
    pl_lock_free(lock);
    pl_client_free(client);
    if (journal >= 0)
        close(journal);
    return status;
}
