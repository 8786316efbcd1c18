// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py. One class for each status of the library.
namespace GpuPool {

/// <summary>A call of the library that failed; the message explains why. Each status has a class of its own.
/// </summary>
public class GpuPoolException : System.Exception {
  /// <summary>The call's status.</summary>
  public Status Status { get; private set; }

  /// <summary>The driver's own number, or 0.</summary>
  public int DriverCode { get; private set; }

  protected internal GpuPoolException(Status status, int driverCode, string message) : base(message) {
    Status = status;
    DriverCode = driverCode;
  }

  /// <summary>For the native code.</summary>
  internal static GpuPoolException Of(Status status, int driverCode, string message) {
    switch (status) {
      case Status.InvalidArgument:
        return new GpuPoolInvalidArgumentException(status, driverCode, message);
      case Status.OutOfMemory:
        return new GpuPoolOutOfMemoryException(status, driverCode, message);
      case Status.HostOutOfMemory:
        return new GpuPoolHostOutOfMemoryException(status, driverCode, message);
      case Status.OverLimit:
        return new GpuPoolOverLimitException(status, driverCode, message);
      case Status.UnknownPointer:
        return new GpuPoolUnknownPointerException(status, driverCode, message);
      case Status.Unavailable:
        return new GpuPoolUnavailableException(status, driverCode, message);
      case Status.Unsupported:
        return new GpuPoolUnsupportedException(status, driverCode, message);
      case Status.Driver:
        return new GpuPoolDriverException(status, driverCode, message);
      case Status.ShuttingDown:
        return new GpuPoolShuttingDownException(status, driverCode, message);
      case Status.Forked:
        return new GpuPoolForkedException(status, driverCode, message);
      case Status.Internal:
        return new GpuPoolInternalException(status, driverCode, message);
      case Status.Asleep:
        return new GpuPoolAsleepException(status, driverCode, message);
      case Status.Interrupted:
        return new GpuPoolInterruptedException(status, driverCode, message);
      default:
        return new GpuPoolException(status, driverCode, message);
    }
  }
}

/// <summary>An argument is out of range, or a handle is NULL, destroyed or from another copy of the library.</summary>
public class GpuPoolInvalidArgumentException : GpuPoolException {
  protected internal GpuPoolInvalidArgumentException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped.
/// So too if the process has no addresses left, which the message says.</summary>
public class GpuPoolOutOfMemoryException : GpuPoolException {
  protected internal GpuPoolOutOfMemoryException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The library could not get memory on the host for its own records, or to save what sleeps.</summary>
public class GpuPoolHostOutOfMemoryException : GpuPoolException {
  protected internal GpuPoolHostOutOfMemoryException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The call would take reserved memory above the pool's limit.</summary>
public class GpuPoolOverLimitException : GpuPoolOutOfMemoryException {
  protected internal GpuPoolOverLimitException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The pointer is not a live block of this pool: foreign, freed already, or inside a block.</summary>
public class GpuPoolUnknownPointerException : GpuPoolException {
  protected internal GpuPoolUnknownPointerException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The backend cannot be used here: no driver, no GPU, or no such device.</summary>
public class GpuPoolUnavailableException : GpuPoolException {
  protected internal GpuPoolUnavailableException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>This device or this mode cannot do it, or a struct has fields that this version does not know.</summary>
public class GpuPoolUnsupportedException : GpuPoolException {
  protected internal GpuPoolUnsupportedException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The driver refused a call; gpupool_error_t.driver_code has its number.</summary>
public class GpuPoolDriverException : GpuPoolException {
  protected internal GpuPoolDriverException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The process is exiting and the driver has gone.</summary>
public class GpuPoolShuttingDownException : GpuPoolException {
  protected internal GpuPoolShuttingDownException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The pool was created before fork, in the parent process.</summary>
public class GpuPoolForkedException : GpuPoolException {
  protected internal GpuPoolForkedException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The library broke a promise of its own. Please report it.</summary>
public class GpuPoolInternalException : GpuPoolException {
  protected internal GpuPoolInternalException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2.</summary>
public class GpuPoolAsleepException : GpuPoolException {
  protected internal GpuPoolAsleepException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}

/// <summary>The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2.</summary>
public class GpuPoolInterruptedException : GpuPoolException {
  protected internal GpuPoolInterruptedException(Status status, int driverCode, string message)
      : base(status, driverCode, message) {}
}
}
