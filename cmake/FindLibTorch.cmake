# Finds the LibTorch that the PyPI wheel carries, without TorchConfig.cmake, which asks for a CUDA toolkit.
#
# Looked for in this order: AMP_TORCH_ROOT, the torch package of the python3 on PATH, the .venv folder of this project.
# Makes the imported targets LibTorch::c10 and LibTorch::torch_cpu; sets LibTorch_FOUND, LibTorch_ROOT, LibTorch_VERSION.
set(_roots)
if(AMP_TORCH_ROOT)
  set(_roots "${AMP_TORCH_ROOT}")
else()
  execute_process(COMMAND python3 -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
                  OUTPUT_VARIABLE _python_torch OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(_python_torch)
    list(APPEND _roots "${_python_torch}")
  endif()
  file(GLOB _venv_torch "${PROJECT_SOURCE_DIR}/.venv/lib/python3*/site-packages/torch")
  list(APPEND _roots ${_venv_torch})
endif()

set(LibTorch_ROOT)
foreach(_root IN LISTS _roots)
  if(EXISTS "${_root}/lib/libtorch_cpu.so" AND EXISTS "${_root}/include/torch/csrc/api/include/torch/torch.h")
    set(LibTorch_ROOT "${_root}")
    break()
  endif()
endforeach()
if(AMP_TORCH_ROOT AND NOT LibTorch_ROOT)
  message(FATAL_ERROR "AMP_TORCH_ROOT=${AMP_TORCH_ROOT} holds no lib/libtorch_cpu.so with include/torch: give the folder of the torch package")
endif()

if(LibTorch_ROOT AND EXISTS "${LibTorch_ROOT}/version.py")
  file(STRINGS "${LibTorch_ROOT}/version.py" _line REGEX "^__version__")
  string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+" LibTorch_VERSION "${_line}")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch REQUIRED_VARS LibTorch_ROOT VERSION_VAR LibTorch_VERSION)

if(LibTorch_FOUND AND NOT TARGET LibTorch::torch_cpu)
  # Linked by name with a runpath of our own: CMake's would warn that the wheel's libgomp hides the compiler's, which is
  # what is wanted, since LibTorch and the program must share one.
  foreach(_lib c10 torch_cpu)
    add_library(LibTorch::${_lib} INTERFACE IMPORTED)
    set_target_properties(LibTorch::${_lib} PROPERTIES
      INTERFACE_INCLUDE_DIRECTORIES "${LibTorch_ROOT}/include;${LibTorch_ROOT}/include/torch/csrc/api/include"
      INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LibTorch_ROOT}/include;${LibTorch_ROOT}/include/torch/csrc/api/include"
      INTERFACE_LINK_OPTIONS "-L${LibTorch_ROOT}/lib;LINKER:-rpath,${LibTorch_ROOT}/lib"
      INTERFACE_LINK_LIBRARIES "-l${_lib}")
  endforeach()
  # The wheel's own runpath finds the CUDA runtime when the program runs; the linker need not resolve it.
  set_property(TARGET LibTorch::torch_cpu APPEND PROPERTY INTERFACE_LINK_OPTIONS "LINKER:--allow-shlib-undefined")
  set_property(TARGET LibTorch::torch_cpu APPEND PROPERTY INTERFACE_LINK_LIBRARIES LibTorch::c10)
endif()
unset(_roots)
