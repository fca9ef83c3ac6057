"""C and C++ identifiers for the user's names in headers of exported libraries; deterministic.

Runs of characters other than ASCII letters and digits become one underscore; leading and trailing ones are dropped. An underscore is
appended to a word that C or C++ reserves, or that headers may define as a macro or a type: keywords, `errno`, names in capitals, names that
end in `_t`. Names that then coincide are numbered.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import re

# Keywords of C23 and C++26, other spellings of operators, what GNU compilers add, and `main` and `std`.
_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t char8_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue contract_assert decltype
default delete do double dynamic_cast else enum explicit export extern false float for fortran friend goto if inline
int long main mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register
reinterpret_cast requires restrict return short signed sizeof static static_assert static_cast std struct switch
template this thread_local throw true try typedef typeid typename typeof typeof_unqual union unsigned using virtual
void volatile wchar_t while xor xor_eq
"""
# Macros without arguments, and types, in small letters: of the headers of C, of POSIX and of GNU.
_DEFINED = """
Dl_info Dl_serinfo Dl_serpath complex d_fileno environ errno fd_mask fd_set h_addr h_errno imaginary jmp_buf linux
math_errhandling memory_order noreturn once_flag s6_addr s6_addr16 s6_addr32 sa_handler sa_sigaction sched_priority
si_addr si_addr_lsb si_arch si_band si_call_addr si_fd si_int si_lower si_overrun si_pid si_pkey si_ptr si_status
si_stime si_syscall si_timerid si_uid si_upper si_utime si_value sigev_notify_attributes sigev_notify_function
sigjmp_buf st_atime st_ctime st_mtime stderr stdin stdout u_char u_int u_long u_short uint ulong unix ushort va_list
"""
# Macros with arguments, and functions that compilers know, which are not also symbols of the C library.
_LIKE_FUNCTIONS = """
alloca assert assert_perror at_quick_exit atexit be16toh be32toh be64toh bindresvport6 ckd_add ckd_mul ckd_sub clrbit
crypt fpclassify fprintf_unlocked getumask howmany htobe16 htobe32 htobe64 htole16 htole32 htole64 inet_net_ntop
inet_net_pton inet_neta isascii_l iscanonical isclr iseqsig isfinite isgreater isgreaterequal isless islessequal
islessgreater isnormal isset issignaling issubnormal isunordered iszero kill_dependency le16toh le32toh le64toh major
makedev minor offsetof pow10 pow10f pow10l powerof2 printf_unlocked roundup setbit setjmp sigmask signbit sigsetjmp
strdupa strndupa timeradd timerclear timercmp timerisset timersub toascii_l unreachable va_arg va_copy va_end va_start
"""
_RESERVED = frozenset(_KEYWORDS.split()) | frozenset(_DEFINED.split())
_CAPITALS = re.compile(
    r"[A-Z][A-Z0-9_]+|(PRI|SCN)[a-zA-Z0-9]+|I|L_ctermid|L_cuserid|L_tmpnam|M_[A-Z0-9_]+(l|f[0-9]*x?)|P_tmpdir|[AP]F_DECnet"
)
# A header of that name would stand before the system's where its folder is searched for headers.
_HEADERS = """
aio assert complex cpuid ctype dirent dlfcn elf endian errno error fcntl features fenv float glob grp iconv inttypes
iso646 libintl limits link locale malloc math memory netdb poll pthread pwd regex sched search semaphore setjmp signal
spawn stdalign stdarg stdatomic stdbit stdbool stdckdint stddef stdint stdio stdlib stdnoreturn string strings syslog
termios tgmath threads time uchar unistd utime values wchar wctype
"""
_CONSTANTS = frozenset({"F_OK", "R_OK", "W_OK", "X_OK"})  # of <unistd.h>
_FUNCTIONS = frozenset(_LIKE_FUNCTIONS.split())
# The runtime's own names, and those that threads, atomics and <cpuid.h> begin theirs with.
_OWN = re.compile(
    r"(rd|raido|RD|RAIDO|TVM|atomic|bit|cnd|memory_order|mtx|pthread|sem|signature|thrd|tss)(_|$)|(Rd|TVM)[A-Z]"
)


def identifier(name: str) -> str:
    """`name` as a valid identifier that is no keyword, type or object-like macro of C or C++."""
    text = re.sub(r"[^0-9A-Za-z]+", "_", name).strip("_") or "value"
    if text[0].isdigit():
        text = f"_{text}"
    return f"{text}_" if text in _RESERVED or _CAPITALS.fullmatch(text) or text.endswith("_t") else text


def global_name(library: str, name: str) -> str:
    """`name` as the name of a function, prefixed with the library's name where a C library or the runtime defines that symbol."""
    public = identifier(name)
    while _is_taken(public):
        public = f"{library}_{public}"
    return public


def library_name(text: str) -> str:
    """The prefix of a library's functions and, in capitals, of its constants; "lib" is put in front where a system header or a C library
    already uses one of the prefixed names."""
    name = identifier(text)
    taken = any(_is_taken(f"{name}_{suffix}") for suffix in (*LIBRARY_FUNCTIONS, *DEVICE_FUNCTIONS))
    return f"lib{name}" if taken or name.lower() in _HEADERS.split() or f"{name.upper()}_OK" in _CONSTANTS else name


LIBRARY_FUNCTIONS = ("message", "metadata", "abi_version", "set_threads", "free")
DEVICE_FUNCTIONS = ("set_device",)
"""Further functions of a library that holds programs for a device."""


def _is_taken(name: str) -> bool:
    return name in _FUNCTIONS or bool(_OWN.match(name)) or _is_c_symbol(name)


@functools.cache
def _is_c_symbol(name: str) -> bool:
    for library in ("libc.so.6", "libm.so.6"):
        with contextlib.suppress(OSError):
            if hasattr(ctypes.CDLL(library), name):
                return True
    return False
