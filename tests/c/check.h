/* The little that the C tests need. A program ends with the first thing that is not as it should be. */
#ifndef CHECK_H
#define CHECK_H

#include <portalock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CHECK(what)                                                                                \
    do {                                                                                           \
        if (!(what)) {                                                                             \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #what);                     \
            exit(1);                                                                               \
        }                                                                                          \
    } while (0)

/* A call that has to answer `wanted`; `error` is the pl_error * that it was given the address of. */
#define ANSWERS(wanted, call)                                                                      \
    do {                                                                                           \
        pl_error *error = (pl_error *)&check_poison;                                               \
        pl_status answer = (call);                                                                 \
        if (answer != (wanted)) {                                                                  \
            fprintf(stderr, "%s:%d: %s answers %s, not %s: %s\n", __FILE__, __LINE__, #call,       \
                    pl_status_name(answer), #wanted, answer ? pl_error_message(error) : "");       \
            exit(1);                                                                               \
        }                                                                                          \
        if (answer == PL_OK) {                                                                     \
            CHECK(error == NULL);                                                                  \
        } else {                                                                                   \
            CHECK(pl_error_status(error) == answer);                                               \
            CHECK(pl_error_message(error)[0] != '\0');                                             \
        }                                                                                          \
        pl_error_free(error);                                                                      \
    } while (0)

/* The error argument is written whatever happens: what it held before is never read. */
static int check_poison;

static inline long long check_ms(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000LL + time.tv_nsec / 1000000;
}

static inline void check_sleep(long ms)
{
    struct timespec span = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&span, NULL);
}

static inline pl_client *check_client(const char *url)
{
    pl_client *client = NULL;
    ANSWERS(PL_OK, pl_client_new(url, NULL, &client, &error));
    return client;
}

static inline pl_lock *check_lock(const pl_client *client, const char *name)
{
    pl_lock *lock = NULL;
    ANSWERS(PL_OK, pl_lock_new(client, name, NULL, &lock, &error));
    return lock;
}

/* Asks the driver of the tests, on the other side of the pipes, to do something. */
static inline void check_ask(const char *what)
{
    char done[16];
    printf("%s\n", what);
    fflush(stdout);
    CHECK(fgets(done, sizeof done, stdin) != NULL);
}

#endif
