# find_package(Iclaustron) gives the targets
#
#   Iclaustron::iclaustron   the shared library
#   Iclaustron::static       the static library, with what it needs of the system
#
# This file is in PREFIX/share/cmake/iclaustron; header and libraries are found from there, so that PREFIX may be moved.

get_filename_component(_iclaustron_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

set(_iclaustron_libdirs lib lib64)
if(CMAKE_LIBRARY_ARCHITECTURE)
  list(APPEND _iclaustron_libdirs "lib/${CMAKE_LIBRARY_ARCHITECTURE}")
endif()

function(_iclaustron_find variable)
  find_library(${variable} NAMES ${ARGN} PATHS "${_iclaustron_prefix}" PATH_SUFFIXES ${_iclaustron_libdirs}
               NO_DEFAULT_PATH)
  mark_as_advanced(${variable})
endfunction()

_iclaustron_find(ICLAUSTRON_SHARED_LIBRARY libiclaustron.so libiclaustron.dylib)
_iclaustron_find(ICLAUSTRON_STATIC_LIBRARY libiclaustron.a)

if(ICLAUSTRON_SHARED_LIBRARY AND NOT TARGET Iclaustron::iclaustron)
  add_library(Iclaustron::iclaustron SHARED IMPORTED)
  set_target_properties(Iclaustron::iclaustron PROPERTIES
    IMPORTED_LOCATION "${ICLAUSTRON_SHARED_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${_iclaustron_prefix}/include")
endif()

if(ICLAUSTRON_STATIC_LIBRARY AND NOT TARGET Iclaustron::static)
  add_library(Iclaustron::static STATIC IMPORTED)
  set_target_properties(Iclaustron::static PROPERTIES
    IMPORTED_LOCATION "${ICLAUSTRON_STATIC_LIBRARY}"
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_INCLUDE_DIRECTORIES "${_iclaustron_prefix}/include"
    INTERFACE_LINK_LIBRARIES "gcc_s;util;rt;pthread;m;dl;c")
endif()

if(NOT ICLAUSTRON_SHARED_LIBRARY AND NOT ICLAUSTRON_STATIC_LIBRARY)
  set(Iclaustron_FOUND FALSE)
  set(Iclaustron_NOT_FOUND_MESSAGE "no libiclaustron below ${_iclaustron_prefix}")
endif()

unset(_iclaustron_libdirs)
unset(_iclaustron_prefix)
