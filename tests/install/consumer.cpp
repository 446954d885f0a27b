// The least that shows that header and library are found, and fit. argv[1] is the server's URL.
#include <iostream>
#include <mutex>
#include <portalock.hpp>

int main(int argc, char **argv)
{
    if (argc != 2 || portalock::version() != PORTALOCK_VERSION_STRING)
        return 1;
    const portalock::client client(argv[1]);
    portalock::lock lock(client, "consumer");
    std::lock_guard guard(lock);
    std::cout << "holds\n";
}
