"""Numbers of SPIR-V that kernels use: instructions, capabilities and the like, under the specification's names.

Source: SPIR-V Specification, version 1.5, and "SPIR-V Extended Instructions for GLSL"; the numbers are those of Khronos' grammar.
"""

from enum import IntEnum

MAGIC = 0x07230203
VERSION_1_5 = 0x00010500
GLSL_SET = "GLSL.std.450"
LOGICAL, PHYSICAL_STORAGE_BUFFER_64 = 0, 5348
MEMORY_MODEL_GLSL450 = 1
MODEL_GLCOMPUTE = 5
SCOPE_DEVICE, SCOPE_WORKGROUP, SCOPE_SUBGROUP = 1, 2, 3
ALIGNED = 2
# Memory semantics: acquire and release, of buffers and of shared memory.
ACQUIRE_RELEASE, UNIFORM_MEMORY, WORKGROUP_MEMORY = 0x8, 0x40, 0x100


class Op(IntEnum):
    """Instructions, without the prefix "Op"."""

    Extension = 10
    ExtInstImport = 11
    ExtInst = 12
    MemoryModel = 14
    EntryPoint = 15
    ExecutionMode = 16
    Capability = 17
    TypeVoid = 19
    TypeBool = 20
    TypeInt = 21
    TypeFloat = 22
    TypeVector = 23
    TypeArray = 28
    TypeRuntimeArray = 29
    TypeStruct = 30
    TypePointer = 32
    TypeFunction = 33
    ConstantTrue = 41
    ConstantFalse = 42
    Constant = 43
    Function = 54
    FunctionEnd = 56
    Variable = 59
    Load = 61
    Store = 62
    AccessChain = 65
    Decorate = 71
    MemberDecorate = 72
    CompositeConstruct = 80
    CompositeExtract = 81
    ConvertFToU = 109
    ConvertFToS = 110
    ConvertSToF = 111
    ConvertUToF = 112
    UConvert = 113
    SConvert = 114
    FConvert = 115
    ConvertUToPtr = 120
    Bitcast = 124
    SNegate = 126
    FNegate = 127
    IAdd = 128
    FAdd = 129
    ISub = 130
    FSub = 131
    IMul = 132
    FMul = 133
    UDiv = 134
    SDiv = 135
    FDiv = 136
    UMod = 137
    LogicalEqual = 164
    LogicalNotEqual = 165
    LogicalOr = 166
    LogicalAnd = 167
    LogicalNot = 168
    Select = 169
    IEqual = 170
    INotEqual = 171
    UGreaterThan = 172
    SGreaterThan = 173
    UGreaterThanEqual = 174
    SGreaterThanEqual = 175
    ULessThan = 176
    SLessThan = 177
    ULessThanEqual = 178
    SLessThanEqual = 179
    FOrdEqual = 180
    FUnordNotEqual = 183
    FOrdLessThan = 184
    FOrdGreaterThan = 186
    FOrdLessThanEqual = 188
    FOrdGreaterThanEqual = 190
    ShiftRightLogical = 194
    ShiftRightArithmetic = 195
    ShiftLeftLogical = 196
    BitwiseOr = 197
    BitwiseXor = 198
    BitwiseAnd = 199
    Not = 200
    BitCount = 205
    ControlBarrier = 224
    AtomicLoad = 227
    AtomicStore = 228
    AtomicExchange = 229
    AtomicCompareExchange = 230
    AtomicIAdd = 234
    AtomicSMin = 236
    AtomicUMin = 237
    AtomicSMax = 238
    AtomicUMax = 239
    AtomicAnd = 240
    AtomicOr = 241
    AtomicXor = 242
    Phi = 245
    LoopMerge = 246
    SelectionMerge = 247
    Label = 248
    Branch = 249
    BranchConditional = 250
    Return = 253
    GroupNonUniformShuffleUp = 347
    GroupNonUniformShuffleDown = 348
    AtomicFAddEXT = 6035


class Glsl(IntEnum):
    """Instructions of the extended set GLSL.std.450."""

    RoundEven = 2
    Trunc = 3
    FAbs = 4
    Floor = 8
    Ceil = 9
    Sqrt = 31
    Fma = 50
    FindUMsb = 75


class Capability(IntEnum):
    """Capabilities that a module may declare."""

    Shader = 1
    Float16 = 9
    Float64 = 10
    Int64 = 11
    Int64Atomics = 12
    Int16 = 22
    Int8 = 39
    GroupNonUniform = 61
    GroupNonUniformShuffleRelative = 66
    StorageBuffer16BitAccess = 4433
    StorageBuffer8BitAccess = 4448
    DenormPreserve = 4464
    SignedZeroInfNanPreserve = 4466
    RoundingModeRTE = 4467
    PhysicalStorageBufferAddresses = 5347
    AtomicFloat32AddEXT = 6033
    AtomicFloat64AddEXT = 6034


class Storage(IntEnum):
    """Storage classes of memory."""

    Input = 1
    Workgroup = 4
    Function = 7
    PushConstant = 9
    StorageBuffer = 12
    PhysicalStorageBuffer = 5349


class Decoration(IntEnum):
    """Decorations of results and members."""

    Block = 2
    ArrayStride = 6
    BuiltIn = 11
    Coherent = 23
    Binding = 33
    DescriptorSet = 34
    Offset = 35
    NoContraction = 42


class BuiltIn(IntEnum):
    """Built-in variables."""

    WorkgroupId = 26
    LocalInvocationId = 27
    SubgroupId = 40
    SubgroupLocalInvocationId = 41


class Mode(IntEnum):
    """Execution modes of an entry point."""

    LocalSize = 17
    DenormPreserve = 4459
    SignedZeroInfNanPreserve = 4461
    RoundingModeRTE = 4462
