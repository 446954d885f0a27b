// Many processes read a cache together; the one that finds it stale fills it, alone.
//
//   cache_refill URL NAME FILE
//
// The cache is a file with one line, and stale if it is not there.
#include <cerrno>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <mutex>
#include <optional>
#include <portalock.hpp>
#include <shared_mutex>
#include <string>
#include <unistd.h>

static std::optional<std::string> cached(const std::string &path)
{
    std::ifstream file(path);
    std::string value;
    return std::getline(file, value) ? std::optional(value) : std::nullopt;
}

static bool reads(portalock::lock &lock, const std::string &path)
{
    std::shared_lock together(lock);
    const auto value = cached(path);
    if (value)
        std::cout << getpid() << " reads " << *value << std::endl;
    return value.has_value();
}

// A file that another could see half written would be no cache.
static void refill(const std::string &path)
{
    const std::string fresh = path + ".new";
    std::ofstream(fresh) << getpid() << '\n';
    if (std::rename(fresh.c_str(), path.c_str()) != 0)
        throw std::system_error(errno, std::generic_category(), path);
    std::cout << getpid() << " refills" << std::endl;
}

// Whether it was this process that filled it: another may have come first while it waited.
static bool refills(portalock::lock &lock, const std::string &path)
{
    std::lock_guard alone(lock);
    if (cached(path))
        return false;
    refill(path);
    return true;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        std::cerr << "usage: cache_refill URL NAME FILE\n";
        return 2;
    }
    try {
        const portalock::client client(argv[1]);
        portalock::lock lock(client, argv[2]);
        while (!reads(lock, argv[3]) && !refills(lock, argv[3])) {
        }
    } catch (const std::exception &error) {
        std::cerr << "cache_refill " << getpid() << ": " << error.what() << '\n';
        return 1;
    }
}
