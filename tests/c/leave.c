/* Ends in the way that argv[2] names, with a lock held. argv[1] is the server's URL. */
#include "check.h"
#include <pthread.h>
#include <unistd.h>

static void *end_thread(void *unused)
{
    (void)unused;
    pthread_exit(NULL);
}

/* Not on the stack, which is gone when leaks are looked for, and not optimised away. */
static pl_client *volatile client;
static pl_lock *volatile lock;

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    client = check_client(argv[1]);
    lock = check_lock(client, "leaving");
    ANSWERS(PL_OK, pl_lock_acquire(lock, 1000, &error));
    check_ask("held");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, end_thread, NULL) == 0 && pthread_join(thread, NULL) == 0);
    switch (argv[2][0]) {
    case 'r':
        return 0;
    case 'e':
        exit(0);
    case '_':
        _exit(0);
    case 'p':
        pthread_exit(NULL);
    default:
        abort();
    }
}
