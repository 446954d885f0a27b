// Goes through critical sections; see main.rs.
//
//   worker URL NAME FOLDER LABEL SECTIONS INSIDE_MS PAUSE_MS
#include <chrono>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <mutex>
#include <portalock.hpp>
#include <sstream>
#include <thread>
#include <unistd.h>

namespace fs = std::filesystem;
using std::chrono::milliseconds;

static void must(bool done, const char *what)
{
    if (!done)
        throw std::runtime_error(std::string("cannot ") + what);
}

class journal {
public:
    explicit journal(const std::string &label)
        : label_(label), file_(open("journal", O_WRONLY | O_APPEND | O_CLOEXEC))
    {
    }
    journal(const journal &) = delete;
    journal &operator=(const journal &) = delete;
    ~journal() { close(file_); }

    // One write to a file opened for appending is one line, however many processes write. The steady
    // clock is CLOCK_MONOTONIC here.
    void note(const char *event, std::uint64_t token = 0) const
    {
        const std::chrono::nanoseconds now = std::chrono::steady_clock::now().time_since_epoch();
        std::ostringstream line;
        line << event << ' ' << label_ << ' ' << token << ' ' << now.count() << '\n';
        const auto text = line.str();
        must(write(file_, text.data(), text.size()) == ssize_t(text.size()), "write the journal");
    }

private:
    std::string label_;
    int file_;
};

// Without a lock of its own: it loses some if two do it at once.
static void count(std::fstream &counter, milliseconds inside)
{
    long long number = 0;
    counter.sync();
    counter.seekg(0) >> number;
    std::this_thread::sleep_for(inside);
    counter.seekp(0) << std::setw(16) << std::setfill('0') << number + 1 << std::flush;
    must(bool(counter), "count");
}

static void section(
    portalock::lock &lock, const journal &book, std::fstream &counter, milliseconds inside)
{
    book.note("want");
    std::unique_lock<portalock::lock> guard(lock);
    const auto token = lock.fencing_token();
    must(fs::create_directory("inside"), "be alone");
    book.note("enter", token);
    count(counter, inside);
    book.note("leave", token);
    must(fs::remove("inside"), "stay alone");
    // By hand, since the guard would not say that the lock was lost.
    guard.release()->release();
}

static void run(char **args)
{
    fs::current_path(args[3]);
    const journal book(args[4]);
    std::fstream counter("counter", std::ios::in | std::ios::out);
    const portalock::client client(args[1]);
    portalock::lock lock(client, args[2], portalock::lock_options().fencing());
    lock.on_lost([&](const portalock::loss &loss) {
        std::cerr << args[4] << ": " << loss.message << '\n';
        book.note("lost");
    });
    std::cout << "worker> ready" << std::endl;
    must(std::cin.get() != EOF, "begin");
    for (long left = std::stol(args[5]); left > 0; left--) {
        section(lock, book, counter, milliseconds(std::stol(args[6])));
        std::this_thread::sleep_for(milliseconds(std::stol(args[7])));
    }
}

int main(int argc, char **argv)
{
    if (argc != 8)
        return 2;
    try {
        run(argv);
        return 0;
    } catch (const std::exception &error) {
        std::cerr << argv[4] << ": " << error.what() << '\n';
        return 1;
    }
}
