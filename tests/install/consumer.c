/* The least that shows that header and library are found, and fit. argv[1] is the server's URL. */
#include <portalock.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    pl_client *client = NULL;
    pl_lock *lock = NULL;
    pl_error *error = NULL;

    if (argc == 2 && strcmp(pl_version(), PORTALOCK_VERSION_STRING) == 0 &&
        pl_client_new(argv[1], NULL, &client, &error) == PL_OK &&
        pl_lock_new(client, "consumer", NULL, &lock, &error) == PL_OK &&
        pl_lock_acquire(lock, 10000, &error) == PL_OK)
        puts("holds");
    else
        fprintf(stderr, "%s\n", pl_error_message(error));
    pl_error_free(error);
    pl_lock_free(lock);
    pl_client_free(client);
    return 0;
}
