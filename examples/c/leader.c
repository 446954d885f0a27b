/*
 * One of many processes leads, and another takes over when it goes, however it goes.
 *
 *   leader URL NAME ROUNDS MILLISECONDS
 *
 * Waits until it leads, leads for so many milliseconds, and steps down; that many rounds.
 */
#include <portalock.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

__attribute__((format(printf, 1, 2))) static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("leader %d ", (int)getpid());
    vprintf(format, arguments);
    va_end(arguments);
    putchar('\n');
}

static int fail(pl_error *error)
{
    fprintf(stderr, "leader %d: %s\n", (int)getpid(), pl_error_message(error));
    pl_error_free(error);
    return 1;
}

/* What a leader does: here it only looks every millisecond whether it still is one. */
static void reign(const pl_lock *lock, long milliseconds)
{
    const struct timespec step = {0, 1000000};
    for (long i = 0; i < milliseconds && pl_lock_is_held(lock); i++)
        nanosleep(&step, NULL);
}

static int lead(pl_lock *lock, long milliseconds)
{
    pl_error *error;
    if (pl_lock_acquire(lock, PL_WAIT_FOREVER, &error) != PL_OK)
        return fail(error);
    say("leads");
    reign(lock, milliseconds);
    /* Said first: as soon as the lock is free, the next one leads. */
    if (pl_lock_is_held(lock))
        say("steps down");
    switch (pl_lock_release(lock, &error)) {
    case PL_OK:
        return 0;
    case PL_LOST:
        say("lost it: %s", pl_error_message(error));
        pl_error_free(error);
        return 0;
    default:
        return fail(error);
    }
}

int main(int argc, char **argv)
{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_error *error;
    int failed = 0;

    if (argc != 5) {
        fprintf(stderr, "usage: leader URL NAME ROUNDS MILLISECONDS\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (pl_client_new(argv[1], NULL, &client, &error) != PL_OK ||
        pl_lock_new(client, argv[2], NULL, &lock, &error) != PL_OK)
        failed = fail(error);
    for (long rounds = atol(argv[3]); rounds > 0 && !failed; rounds--)
        failed = lead(lock, atol(argv[4]));
    pl_lock_free(lock);
    pl_client_free(client);
    return failed;
}
