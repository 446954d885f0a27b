/* Acquires that are started, events and verification, as C sees them. argv[1] is the server's URL. */
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

static atomic_int calls, drops, last_status;

static void on_end(void *context, pl_status status, const char *message)
{
    CHECK(context == &calls && (message[0] == '\0') == (status == PL_OK));
    atomic_store(&last_status, (int)status);
    atomic_fetch_add(&calls, 1);
}

static void on_drop(void *context)
{
    CHECK(context == &calls);
    atomic_fetch_add(&drops, 1);
}

static const pl_acquired_callback callback = {&calls, on_end, on_drop};
static const pl_acquired_callback nobody = {NULL, NULL, NULL};

static void await(atomic_int *number, int wanted)
{
    for (int i = 0; i < 5000 && atomic_load(number) != wanted; i++)
        check_sleep(1);
    CHECK(atomic_load(number) == wanted);
}

static int is_raised(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN, .revents = 0};
    return poll(&entry, 1, 0);
}

static pl_event *next(pl_client *client)
{
    pl_event *event = NULL;
    ANSWERS(PL_OK, pl_client_next_event(client, 5000, &event, &error));
    CHECK(event != NULL);
    return event;
}

static void wrong_arguments(pl_client *client, pl_lock *lock)
{
    int fd = -1;
    pl_event *event = (pl_event *)&check_poison;
    ANSWERS(PL_INVALID, pl_client_event_fd(NULL, &fd, &error));
    ANSWERS(PL_INVALID, pl_client_event_fd(client, NULL, &error));
    ANSWERS(PL_INVALID, pl_client_event_fd((pl_client *)lock, &fd, &error));
    ANSWERS(PL_INVALID, pl_client_next_event(NULL, 0, &event, &error));
    ANSWERS(PL_INVALID, pl_client_next_event(client, 0, NULL, &error));
    ANSWERS(PL_INVALID, pl_client_next_event(client, PL_DEFAULT, &event, &error));
    ANSWERS(PL_INVALID, pl_client_next_event(client, INT64_MAX, &event, &error));
    CHECK(fd == -1 && event == (pl_event *)&check_poison);

    CHECK(pl_event_type_of(NULL) == 0 && pl_event_lock(NULL) == NULL && pl_event_count(NULL) == 0);
    CHECK(pl_event_name(NULL)[0] == '\0' && pl_event_message(NULL)[0] == '\0');
    CHECK(pl_event_status(NULL) == PL_OK && pl_event_loss_reason(NULL) == 0);
    CHECK(pl_event_type_of((pl_event *)lock) == 0);
    pl_event_free(NULL);
    pl_event_free((pl_event *)lock);

    ANSWERS(PL_INVALID, pl_lock_verify(NULL, 1, &error));
    ANSWERS(PL_INVALID, pl_lock_verify(lock, -1, &error));
    ANSWERS(PL_NOT_HELD, pl_lock_verify(lock, 1, &error));
    CHECK(pl_lock_verified_age(NULL) == -1 && pl_lock_verified_age(lock) == -1);
    ANSWERS(PL_INVALID, pl_lock_set_data(NULL, NULL, &error));
    CHECK(pl_lock_data(NULL) == NULL && pl_lock_data(lock) == NULL);

    /* Whatever is refused, the callback's drop is called, and nothing else. */
    ANSWERS(PL_INVALID, pl_lock_acquire_start(NULL, PL_MODE_NONE, 1, callback, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_start(lock, 7, 1, callback, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_start(lock, PL_MODE_NONE, -7, callback, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_start(lock, PL_MODE_NONE, 1, nobody, &error));
    CHECK(atomic_load(&calls) == 0 && atomic_load(&drops) == 3);
    atomic_store(&drops, 0);
}

static void callbacks(pl_client *client, pl_lock *lock)
{
    ANSWERS(PL_OK, pl_lock_acquire_start(lock, PL_MODE_EXCLUSIVE, 5000, callback, &error));
    await(&drops, 1);
    CHECK(atomic_load(&calls) == 1 && atomic_load(&last_status) == PL_OK);
    CHECK(pl_lock_is_held(lock));
    ANSWERS(PL_ACTIVE, pl_lock_acquire_start(lock, PL_MODE_NONE, 1, callback, &error));
    CHECK(atomic_load(&calls) == 1 && atomic_load(&drops) == 2);

    pl_lock *rival = check_lock(client, pl_lock_name(lock));
    ANSWERS(PL_OK, pl_lock_acquire_start(rival, PL_MODE_SHARED, 50, callback, &error));
    await(&drops, 3);
    CHECK(atomic_load(&calls) == 2 && atomic_load(&last_status) == PL_TIMEOUT);
    ANSWERS(PL_OK, pl_lock_acquire_start(rival, PL_MODE_NONE, PL_WAIT_FOREVER, callback, &error));
    pl_lock_cancel(rival);
    await(&drops, 4);
    CHECK(atomic_load(&calls) == 3 && atomic_load(&last_status) == PL_CANCELLED);
    ANSWERS(PL_OK, pl_lock_acquire_start(rival, PL_MODE_NONE, PL_DEFAULT, callback, &error));
    pl_lock_free(rival);
    await(&drops, 5);
    CHECK(atomic_load(&calls) == 3);
    ANSWERS(PL_OK, pl_lock_release_wait(lock, 1000, &error));
}

static void events(pl_client *client, pl_lock *lock)
{
    int fd, again, number = 7;
    ANSWERS(PL_OK, pl_client_event_fd(client, &fd, &error));
    ANSWERS(PL_OK, pl_client_event_fd(client, &again, &error));
    CHECK(fd == again && fcntl(fd, F_GETFD) == FD_CLOEXEC && !is_raised(fd));
    ANSWERS(PL_OK, pl_lock_set_data(lock, &number, &error));

    ANSWERS(PL_OK, pl_lock_acquire_start(lock, PL_MODE_NONE, 5000, nobody, &error));
    pl_event *event = next(client);
    CHECK(pl_event_type_of(event) == PL_EVENT_ACQUIRED && pl_event_status(event) == PL_OK);
    CHECK(pl_event_lock(event) == lock && pl_lock_data(pl_event_lock(event)) == &number);
    CHECK(strcmp(pl_event_name(event), pl_lock_name(lock)) == 0 && !is_raised(fd));
    pl_event_free(event);
    CHECK(pl_event_type_of(event) == 0);

    ANSWERS(PL_OK, pl_lock_verify(lock, 5000, &error));
    long long age = pl_lock_verified_age(lock);
    CHECK(age >= 0 && age < 2000);
    char order[256] = "kill ", *name = order + 5;
    ANSWERS(PL_OK, pl_lock_client_name(lock, name, sizeof order - 5, &error));
    check_ask(order);
    event = next(client);
    CHECK(pl_event_type_of(event) == PL_EVENT_LOST && pl_event_status(event) == PL_LOST);
    CHECK(pl_event_loss_reason(event) == PL_LOSS_DISCONNECTED);
    CHECK(pl_event_message(event)[0] != '\0');
    pl_event_free(event);
    ANSWERS(PL_LOST, pl_lock_verify(lock, 1, &error));
    CHECK(pl_lock_verified_age(lock) == -1);

    /* A lock that is freed takes its events along. */
    ANSWERS(PL_OK, pl_lock_acquire_start(lock, PL_MODE_NONE, 5000, nobody, &error));
    for (int i = 0; i < 5000 && !is_raised(fd); i++)
        check_sleep(1);
    CHECK(is_raised(fd));
    pl_lock_free(lock);
    CHECK(!is_raised(fd));
    ANSWERS(PL_OK, pl_client_next_event(client, 0, &event, &error));
    CHECK(event == NULL);
    ANSWERS(PL_INVALID, pl_lock_acquire_start(lock, PL_MODE_NONE, 1, nobody, &error));
}

static void *wait_for_event(void *client)
{
    pl_event *event;
    ANSWERS(PL_INVALID, pl_client_next_event(client, PL_WAIT_FOREVER, &event, &error));
    return NULL;
}

/* A lock that is free is held at once, without an event; else the event queue tells. */
static void begun_here(pl_client *client)
{
    bool held = false;
    pl_lock *lock = check_lock(client, "begun"), *other = check_lock(client, "begun");
    ANSWERS(PL_INVALID, pl_lock_acquire_begin(NULL, PL_MODE_NONE, 1, &held, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_begin(lock, PL_MODE_NONE, 1, NULL, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_begin(lock, 7, 1, &held, &error));
    ANSWERS(PL_INVALID, pl_lock_acquire_begin(lock, PL_MODE_NONE, -7, &held, &error));
    CHECK(!pl_lock_is_held(lock));

    for (int i = 0; i < 3; i++) {
        ANSWERS(PL_OK, pl_lock_acquire_begin(lock, PL_MODE_NONE, 5000, &held, &error));
        if (!held) { /* The server has taken longer than that. */
            pl_event *event = next(client);
            CHECK(pl_event_type_of(event) == PL_EVENT_ACQUIRED && pl_event_status(event) == PL_OK);
            pl_event_free(event);
        }
        CHECK(pl_lock_is_held(lock));
        ANSWERS(PL_ACTIVE, pl_lock_acquire_begin(lock, PL_MODE_NONE, 5000, &held, &error));
        if (i < 2)
            ANSWERS(PL_OK, pl_lock_release(lock, &error));
    }

    held = true;
    ANSWERS(PL_OK, pl_lock_acquire_begin(other, PL_MODE_NONE, PL_WAIT_FOREVER, &held, &error));
    CHECK(!held && !pl_lock_is_held(other));
    ANSWERS(PL_OK, pl_lock_release(lock, &error));
    pl_event *event = next(client);
    CHECK(pl_event_type_of(event) == PL_EVENT_ACQUIRED && pl_event_lock(event) == other);
    CHECK(pl_event_status(event) == PL_OK && pl_lock_is_held(other));
    pl_event_free(event);

    held = true;
    ANSWERS(PL_OK, pl_lock_acquire_begin(lock, PL_MODE_NONE, PL_WAIT_FOREVER, &held, &error));
    CHECK(!held);
    pl_lock_cancel(lock);
    event = next(client);
    CHECK(pl_event_lock(event) == lock && pl_event_status(event) == PL_CANCELLED);
    pl_event_free(event);
    ANSWERS(PL_OK, pl_client_next_event(client, 0, &event, &error));
    CHECK(event == NULL);
    pl_lock_free(lock);
    pl_lock_free(other);
}

static void the_end(pl_client *client)
{
    int fd;
    pthread_t thread;
    ANSWERS(PL_OK, pl_client_event_fd(client, &fd, &error));
    CHECK(pthread_create(&thread, NULL, wait_for_event, client) == 0);
    check_sleep(50);
    pl_client_free(client);
    CHECK(pthread_join(thread, NULL) == 0);
    CHECK(fcntl(fd, F_GETFD) == -1 && errno == EBADF);
    ANSWERS(PL_INVALID, pl_client_event_fd(client, &fd, &error));
}

int main(int argc, char **argv)
{
    CHECK(argc == 2);
    pl_client *client = check_client(argv[1]);
    pl_lock *lock = check_lock(client, "events");
    wrong_arguments(client, lock);
    callbacks(client, lock);
    events(client, lock);
    begun_here(client);
    the_end(client);
    return 0;
}
