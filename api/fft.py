"""`rd.fft`: Fourier transforms by NumPy's names."""

from raido.algo.library.fft import fft, fft2, fftfreq, ifft, ifft2, irfft, rfft

__all__ = ["fft", "fft2", "fftfreq", "ifft", "ifft2", "irfft", "rfft"]
