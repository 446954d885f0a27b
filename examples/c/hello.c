#include <portalock.h>
#include <stdio.h>

int main(void)
{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_error *error = NULL;

    if (pl_client_new("redis://127.0.0.1:6379", NULL, &client, &error) == PL_OK &&
        pl_lock_new(client, "nightly-report", NULL, &lock, &error) == PL_OK &&
        pl_lock_acquire(lock, PL_DEFAULT, &error) == PL_OK) {
        puts("I am the only one here.");
        pl_lock_release(lock, &error);
    }
    if (error)
        fprintf(stderr, "%s\n", pl_error_message(error));
    int failed = error != NULL;
    pl_error_free(error);
    pl_lock_free(lock);
    pl_client_free(client);
    return failed;
}
