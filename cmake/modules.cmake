# A module is a directory below src/ that becomes one static library, haul_<name>, from all
# of its C files. DEPENDS names the modules that its includes may point at; scripts/check-includes
# insists on the same list.
function(haul_module name)
  cmake_parse_arguments(arg "" "" "DEPENDS;LIBRARIES" ${ARGN})
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.c)
  if(NOT sources)
    return()
  endif()
  add_library(haul_${name} STATIC ${sources})
  target_include_directories(haul_${name} PUBLIC ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM arg_DEPENDS PREPEND haul_)
  target_link_libraries(haul_${name} PRIVATE haul_flags PUBLIC ${arg_DEPENDS} ${arg_LIBRARIES})
endfunction()

# The tests of a module are the files tests/<name>/test_*.c: one program, one ctest entry each.
# A first line `/* ctest: LABEL... */` sets its labels; without it the label is unit. The label cuda
# adds a second entry, of label gpu, that runs the program with the argument cuda; it is skipped
# where there is no card. Threads that wait do not spin for long: others may need the cores.
function(haul_tests name)
  if(NOT TARGET haul_${name})
    return()
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/test_*.c)
  foreach(source ${sources})
    get_filename_component(test ${source} NAME_WE)
    string(REPLACE "test_" "${name}-" entry ${test})
    add_executable(${entry} ${source})
    target_include_directories(${entry} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
    target_link_libraries(${entry} PRIVATE haul_flags haul_${name} haul_testing cmocka)
    target_compile_definitions(${entry} PRIVATE HAUL_TEST_DIR="${CMAKE_CURRENT_SOURCE_DIR}")
    file(STRINGS ${source} first LIMIT_COUNT 1)
    set(labels unit)
    if(first MATCHES "ctest: ([a-z; ]+) \\*/")
      string(REPLACE " " ";" labels "${CMAKE_MATCH_1}")
    endif()
    if("cuda" IN_LIST labels)
      list(REMOVE_ITEM labels cuda)
      if(HAUL_WITH_CUDA)
        add_test(NAME ${entry}-cuda COMMAND ${entry} cuda)
        set_tests_properties(${entry}-cuda PROPERTIES
          LABELS gpu TIMEOUT 300 SKIP_RETURN_CODE 77 RUN_SERIAL TRUE)
      endif()
    endif()
    add_test(NAME ${entry} COMMAND ${entry})
    set_tests_properties(${entry} PROPERTIES LABELS "${labels}" TIMEOUT 300
      ENVIRONMENT "GOMP_SPINCOUNT=20000")
  endforeach()
endfunction()
