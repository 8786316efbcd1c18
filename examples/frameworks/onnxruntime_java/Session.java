// SPDX-License-Identifier: Apache-2.0
// A model of ONNX Runtime whose weights and activations are in a pool: java Session LIBRARY MODEL [Cpu]. LIBRARY is
// session.cpp, compiled; Cpu runs without a GPU, on the simulated device (GPUPOOL_BACKEND=sim).
import ai.onnxruntime.OnnxTensor;
import ai.onnxruntime.OrtEnvironment;
import ai.onnxruntime.OrtSession;
import java.util.Map;

public class Session {
  private static native boolean install(int device, boolean isOnGpu);

  private static native long held(int device);

  public static void main(String[] arguments) throws Exception {
    boolean isOnGpu = arguments.length < 3;
    OrtEnvironment environment = OrtEnvironment.getEnvironment(); // loads ONNX Runtime, which the library needs
    System.load(arguments[0]);
    if (!install(0, isOnGpu)) throw new IllegalStateException("ONNX Runtime refused the pool");
    try (OrtSession.SessionOptions options = new OrtSession.SessionOptions()) {
      options.addConfigEntry("session.use_env_allocators", "1");
      if (isOnGpu) options.addCUDA(0);
      try (OrtSession session = environment.createSession(arguments[1], options);
          OnnxTensor x = OnnxTensor.createTensor(environment, new float[1][64]);
          OrtSession.Result result = session.run(Map.of("x", x))) {
        System.out.println(held(0) + " bytes of the pool are in use");
      }
    }
    System.out.println(held(0) + " are in use at the end");
  }
}
