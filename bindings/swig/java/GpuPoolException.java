// SPDX-License-Identifier: Apache-2.0
// Written by tools/apigen.py. One class for each status of the library.
package org.gpupool;

/** A call of the library that failed; the message explains why. Each status has a class of its own. */
public class GpuPoolException extends RuntimeException {
  private static final long serialVersionUID = 1;
  private final Status status;
  private final int driverCode;

  protected GpuPoolException(Status status, int driverCode, String message) {
    super(message);
    this.status = status;
    this.driverCode = driverCode;
  }

  /** The status of the call. */
  public Status getStatus() {
    return status;
  }

  /** The driver's own number, or 0. */
  public int getDriverCode() {
    return driverCode;
  }

  /** For the native code. */
  static GpuPoolException of(int number, int driverCode, String message) {
    Status status = Status.swigToEnum(number);
    switch (status) {
      case INVALID_ARGUMENT:
        return new InvalidArgumentException(status, driverCode, message);
      case OUT_OF_MEMORY:
        return new OutOfMemoryException(status, driverCode, message);
      case HOST_OUT_OF_MEMORY:
        return new HostOutOfMemoryException(status, driverCode, message);
      case OVER_LIMIT:
        return new OverLimitException(status, driverCode, message);
      case UNKNOWN_POINTER:
        return new UnknownPointerException(status, driverCode, message);
      case UNAVAILABLE:
        return new UnavailableException(status, driverCode, message);
      case UNSUPPORTED:
        return new UnsupportedException(status, driverCode, message);
      case DRIVER:
        return new DriverException(status, driverCode, message);
      case SHUTTING_DOWN:
        return new ShuttingDownException(status, driverCode, message);
      case FORKED:
        return new ForkedException(status, driverCode, message);
      case INTERNAL:
        return new InternalException(status, driverCode, message);
      case ASLEEP:
        return new AsleepException(status, driverCode, message);
      case INTERRUPTED:
        return new InterruptedException(status, driverCode, message);
      default:
        return new GpuPoolException(status, driverCode, message);
    }
  }

  /** An argument is out of range, or a handle is NULL, destroyed or from another copy of the library. */
  public static class InvalidArgumentException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected InvalidArgumentException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The device has no more memory, or for pinned memory the host, and nothing that the pool tried has helped. So
   * too if the process has no addresses left, which the message says. */
  public static class OutOfMemoryException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected OutOfMemoryException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The library could not get memory on the host for its own records, or to save what sleeps. */
  public static class HostOutOfMemoryException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected HostOutOfMemoryException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The call would take reserved memory above the pool's limit. */
  public static class OverLimitException extends OutOfMemoryException {
    private static final long serialVersionUID = 1;

    protected OverLimitException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The pointer is not a live block of this pool: foreign, freed already, or inside a block. */
  public static class UnknownPointerException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected UnknownPointerException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The backend cannot be used here: no driver, no GPU, or no such device. */
  public static class UnavailableException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected UnavailableException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** This device or this mode cannot do it, or a struct has fields that this version does not know. */
  public static class UnsupportedException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected UnsupportedException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The driver refused a call; gpupool_error_t.driver_code has its number. */
  public static class DriverException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected DriverException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The process is exiting and the driver has gone. */
  public static class ShuttingDownException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected ShuttingDownException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The pool was created before fork, in the parent process. */
  public static class ForkedException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected ForkedException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The library broke a promise of its own. Please report it. */
  public static class InternalException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected InternalException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The pool is asleep, or falling asleep: see gpupool_sleep. Since 0.2. */
  public static class AsleepException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected AsleepException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }

  /** The call waited, and a function of gpupool_set_interrupt_check has ended that. Since 0.2. */
  public static class InterruptedException extends GpuPoolException {
    private static final long serialVersionUID = 1;

    protected InterruptedException(Status status, int driverCode, String message) {
      super(status, driverCode, message);
    }
  }
}
