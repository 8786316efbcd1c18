// SPDX-License-Identifier: Apache-2.0

package gpupool_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	gpupool "github.com/gpupool/gpupool/bindings/go"
)

// A library of another version is refused in words: here one that says so, which the loader finds first.
func TestAnotherVersion(t *testing.T) {
	if os.Getenv("GPUPOOL_TEST_VERSION") != "" {
		for _, err := range []error{
			second(gpupool.New()), second(gpupool.DefaultPool(0)), second(gpupool.DeviceCount(gpupool.BackendSim)),
			second(gpupool.DeviceInfo(gpupool.BackendSim, 0)), gpupool.SimConfigure(0, gpupool.SimConfig{}),
		} {
			fails(t, err, gpupool.ErrUnsupported)
			says(t, err, "the loaded libgpupool has version 0.77.1, and this program was built for 0.2: install")
		}
		return
	}
	compiler, err := exec.LookPath("cc")
	if err != nil {
		t.Skip("there is no C compiler")
	}
	source, library := filepath.Join(t.TempDir(), "version.c"), filepath.Join(t.TempDir(), "version.so")
	ok(t, os.WriteFile(source, []byte("unsigned gpupool_version(void) { return 7701; }\n"+
		"const char* gpupool_version_string(void) { return \"0.77.1\"; }\n"), 0o600))
	output, err := exec.Command(compiler, "-shared", "-fPIC", "-o", library, source).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	program := exec.Command(os.Args[0], "-test.run=^TestAnotherVersion$", "-test.v")
	program.Env = append(os.Environ(), "GPUPOOL_TEST_VERSION=1", "LD_PRELOAD="+library)
	if output, err := program.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, output)
	}
}
