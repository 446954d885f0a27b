// The header alone, first and twice, and its types as the standard sees them.
#include <portalock.hpp>
#include <portalock.hpp>

#include <shared_mutex>

template <class Owner> constexpr bool is_owner()
{
    return std::is_nothrow_move_constructible_v<Owner> && std::is_nothrow_move_assignable_v<Owner> &&
           !std::is_copy_constructible_v<Owner> && !std::is_copy_assignable_v<Owner>;
}

static_assert(is_owner<portalock::client>() && is_owner<portalock::lock>());
static_assert(is_owner<portalock::client_options>() && is_owner<portalock::lock_options>());
static_assert(is_owner<portalock::holders>() && is_owner<portalock::event>());
static_assert(is_owner<portalock::stats>());
static_assert(std::is_error_code_enum_v<portalock::errc>);
static_assert(std::is_base_of_v<std::system_error, portalock::error>);
static_assert(noexcept(std::declval<portalock::lock &>().unlock()));
static_assert(noexcept(std::declval<portalock::lock &>().unlock_shared()));

template class std::unique_lock<portalock::lock>;
template class std::shared_lock<portalock::lock>;
template class std::lock_guard<portalock::lock>;
template class std::scoped_lock<portalock::lock>;
template class std::scoped_lock<portalock::lock, portalock::lock, std::mutex>;

#if __cplusplus >= 202002L && defined(_GLIBCXX_RELEASE)
static_assert(std::input_iterator<portalock::holders::iterator>);
#ifndef PORTALOCK_HAS_STOP_TOKEN
#error "std::stop_token is not used where it is there"
#endif
#endif

int in_the_other_unit(const portalock::client &client, std::error_code code);

int main()
{
    const portalock::client client("redis://127.0.0.1:1");
    if (portalock::version() != PORTALOCK_VERSION_STRING)
        return 1;
    return in_the_other_unit(client, portalock::errc::lost);
}
