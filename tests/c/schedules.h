/* What tests/c/schedules.c rests on: dice, and what its calls may answer. */
#ifndef SCHEDULES_H
#define SCHEDULES_H

#include "check.h"

/* --- Dice -------------------------------------------------------------------------------------- */

static inline uint64_t roll(uint64_t *dice)
{
    /* splitmix64: every seed is a good one. */
    uint64_t mixed = (*dice += 0x9e3779b97f4a7c15u);
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

static inline unsigned below(uint64_t *dice, unsigned bound)
{
    return (unsigned)(roll(dice) % bound);
}

static inline long number_from(const char *variable, long otherwise)
{
    const char *text = getenv(variable);
    return text && *text ? atol(text) : otherwise;
}

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

static inline void judge(const char *call, pl_status answer, pl_error *error, unsigned set)
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

#endif
