# Defines portalock::portalock and portalock::static for what `cargo cinstall` has installed. That knows
# nothing of CMake: the libraries are looked for where this file's prefix may have them.
get_filename_component(_portalock_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

function(_portalock_find variable name)
  find_library(${variable} NAMES "${name}" PATHS "${_portalock_prefix}" NO_DEFAULT_PATH
               PATH_SUFFIXES lib "lib/${CMAKE_LIBRARY_ARCHITECTURE}" lib64)
  mark_as_advanced(${variable})
endfunction()

_portalock_find(PORTALOCK_SHARED_LIBRARY libportalock.so)
_portalock_find(PORTALOCK_STATIC_LIBRARY libportalock.a)

if(PORTALOCK_STATIC_LIBRARY AND NOT TARGET portalock::static)
  add_library(portalock::static STATIC IMPORTED)
  set_target_properties(portalock::static PROPERTIES
    IMPORTED_LOCATION "${PORTALOCK_STATIC_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_portalock_prefix}/include"
    INTERFACE_LINK_LIBRARIES "util;rt;pthread;m;dl")
endif()
if(PORTALOCK_SHARED_LIBRARY AND NOT TARGET portalock::portalock)
  add_library(portalock::portalock SHARED IMPORTED)
  set_target_properties(portalock::portalock PROPERTIES
    IMPORTED_LOCATION "${PORTALOCK_SHARED_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_portalock_prefix}/include")
elseif(TARGET portalock::static AND NOT TARGET portalock::portalock)
  add_library(portalock::portalock INTERFACE IMPORTED)
  set_target_properties(portalock::portalock PROPERTIES
    INTERFACE_LINK_LIBRARIES portalock::static)
endif()

if(NOT TARGET portalock::portalock)
  set(portalock_FOUND FALSE)
  set(portalock_NOT_FOUND_MESSAGE "there is no library below ${_portalock_prefix}")
endif()
unset(_portalock_prefix)
