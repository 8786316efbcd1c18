# SPDX-License-Identifier: Apache-2.0
"""gpupool for Conan 2: conan create . --version VERSION"""

from pathlib import Path

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, get, rmdir

required_conan_version = ">=2.0"


class GpupoolConan(ConanFile):
    name = "gpupool"
    description = "A pool of GPU memory, with a simulated device for machines without a GPU"
    license = "Apache-2.0"
    url = "https://github.com/gpupool/gpupool"
    homepage = "https://github.com/gpupool/gpupool"
    topics = ("gpu", "cuda", "memory", "allocator")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}

    def layout(self):
        cmake_layout(self)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("gpupool is for Linux")
        # Only building needs C++20: the package exports C, and a header for C++17.
        check_min_cppstd(self, 17)

    def source(self):
        get(self, **self.conan_data["sources"][self.version], strip_root=True)

    def generate(self):
        toolchain = CMakeToolchain(self)
        for part in ("TESTS", "CLI", "EXAMPLES"):
            toolchain.cache_variables[f"GPUPOOL_BUILD_{part}"] = False
        toolchain.cache_variables["GPUPOOL_BUILD_STATIC"] = not self.options.shared
        toolchain.blocks.remove("cppstd")
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, Path(self.package_folder) / "licenses")
        CMake(self).install()
        for folder in ("lib/cmake", "lib/pkgconfig", "share"):
            rmdir(self, Path(self.package_folder) / folder)
        if not self.options.shared:
            for library in (Path(self.package_folder) / "lib").glob("libgpupool.so*"):
                library.unlink()

    def package_info(self):
        self.cpp_info.libs = ["gpupool"]
        self.cpp_info.set_property("cmake_file_name", "gpupool")
        target = "gpupool" if self.options.shared else "static"
        self.cpp_info.set_property("cmake_target_name", f"gpupool::{target}")
        self.cpp_info.set_property("pkg_config_name", "gpupool")
        if not self.options.shared:
            self.cpp_info.defines = ["GPUPOOL_STATIC"]
            self.cpp_info.system_libs = ["dl", "m", "pthread", "stdc++"]
