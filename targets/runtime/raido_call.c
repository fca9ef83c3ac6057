/* The call of an executable in the ordinary case: arguments checked, results allocated, the entry run without the interpreter lock.
 *
 * An instance of a class derived from Caller is called by its `_plan`, which raido.targets.fastcall has written for one signature.
 * Whatever is unusual (another type, a strided array, a wrong size, too little memory) goes to its method `_complete`: nothing has
 * happened by then.  `_fail` raises what a run reports.
 * The only C that knows Python and NumPy, and only their stable interfaces: one build serves every version of both. Formats with `#` are
 * none of these: built with the headers of 3.13 they fail in earlier versions.
 */
#define Py_LIMITED_API 0x030A0000
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <Python.h>
#include <numpy/arrayobject.h>

#include "raido_runtime.h"

#define MOST 64                    /* arguments of an entry, and dimensions of an array */
#define LARGEST ((int64_t)1 << 60) /* a size in elements; an array has at most four times as many bytes (algo/graph/limits.py) */
#define EXACT (1ll << 53)          /* integers up to here are numbers of f64 */

enum { PROGRAM, TREE, OUT, TYPES, ALLOCATE, FINISH }; /* the parts of a plan */

typedef struct {
  int64_t entry, set_limit, threads, large, inputs, explicit_sizes, tests, sizes, existentials, outputs, code[];
} Program;

/* The code from here on, and what is known: dimensions of the inputs, sizes that are arguments, bounds of existentials. */
typedef struct {
  const int64_t* next;
  int count, wrong;
  int64_t known[4 * MOST];
} Numbers;

/* The next size: 0 and a literal, 1 and the place of what is known, or the number of an operation and two sizes. */
static int64_t evaluate(Numbers* n) {
  int64_t operation = *n->next++, result = 0;
  if (operation == 0) return *n->next++;
  if (operation == 1) return n->known[*n->next++];
  int64_t left = evaluate(n), right = evaluate(n);
  if (operation == 2) n->wrong |= __builtin_add_overflow(left, right, &result);
  if (operation == 3) n->wrong |= __builtin_sub_overflow(left, right, &result);
  if (operation == 4) n->wrong |= __builtin_mul_overflow(left, right, &result);
  if (operation == 5 || operation == 6) { /* rounded down; by 0 it is 0 */
    n->wrong |= left < 0 || right < 0;
    result = n->wrong || right == 0 ? 0 : operation == 5 ? left / right : left % right;
  }
  if (operation == 7) result = left < right ? left : right;
  if (operation == 8) result = left > right ? left : right;
  return result;
}

static void know(Numbers* n, int64_t size) {
  n->wrong |= size < 0 || size > LARGEST;
  n->known[n->count++] = size;
}

/* Takes hold of the ends of a nested argument, or of nested arrays for the results; 0 where it nests in another way. */
static int unpack(PyObject* tree, PyObject* given, PyObject** leaves) {
  if (PyLong_Check(tree)) {
    Py_INCREF(given);
    leaves[PyLong_AsLong(tree)] = given;
    return 1;
  }
  PyObject *field, *part, *found;
  Py_ssize_t count = PyObject_Size(tree), i = 0, at = 0;
  if (PyTuple_Check(tree)) {
    if (!PyTuple_Check(given) || PyTuple_Size(given) != count) return 0;
    while (i < count && unpack(PyTuple_GetItem(tree, i), PyTuple_GetItem(given, i), leaves)) i++;
    return i == count;
  }
  if (!PyDict_CheckExact(given) || PyDict_Size(given) != count) return 0;
  while (PyDict_Next(tree, &at, &field, &part) && (found = PyDict_GetItem(given, field)) && unpack(part, found, leaves)) i++;
  return i == count;
}

static int is_plain(PyObject* given, PyObject* dtype, int rank, int flags) {
  PyArrayObject* array = (PyArrayObject*)given;
  return PyArray_CheckExact(given) && (PyObject*)PyArray_DESCR(array) == dtype && PyArray_NDIM(array) == rank &&
         (PyArray_FLAGS(array) & flags) == flags;
}

static int share_memory(PyObject* a, PyObject* b) {
  PyArrayObject *x = (PyArrayObject*)a, *y = (PyArrayObject*)b;
  return PyArray_BYTES(x) < PyArray_BYTES(y) + PyArray_NBYTES(y) && PyArray_BYTES(y) < PyArray_BYTES(x) + PyArray_NBYTES(x);
}

/* Whether a number is of a kind (bool, int or float; None is none): np.float64 derives from float, and floats take integers that f64 holds. */
static int is_of_kind(PyObject* given, PyObject* kind) {
  if (kind == Py_None || PyObject_TypeCheck(given, (PyTypeObject*)kind)) return kind != Py_None;
  if (kind != (PyObject*)&PyFloat_Type || !PyLong_Check(given)) return 0;
  int too_large = 0;
  long long value = PyLong_AsLongLongAndOverflow(given, &too_large);
  return !too_large && -EXACT <= value && value <= EXACT;
}

/* The user's array for a result, apart from the arrays in `held`, or a new one; NULL where there is none that will do. */
static PyObject* take_result(PyObject* plan, PyObject* out, PyObject* dtype, int rank, npy_intp* shape, PyObject** held, int count) {
  const Program* p = (const Program*)PyBytes_AsString(PyTuple_GetItem(plan, PROGRAM));
  int64_t bytes = PyDataType_ELSIZE((PyArray_Descr*)dtype), too_large = 0;
  for (int d = 0; d < rank; d++) too_large |= __builtin_mul_overflow(bytes, shape[d] ? shape[d] : 1, &bytes);
  if (out) {
    if (!is_plain(out, dtype, rank, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE)) return NULL;
    if (!PyArray_CompareLists(PyArray_DIMS((PyArrayObject*)out), shape, rank)) return NULL;
    for (int i = 0; i < count; i++)
      if (held[i] && PyArray_CheckExact(held[i]) && share_memory(held[i], out)) return NULL;
    return Py_NewRef(out);
  }
  if (too_large || bytes > 4 * LARGEST) return NULL;
  if (bytes < p->large) return PyArray_Empty(rank, shape, (PyArray_Descr*)Py_NewRef(dtype), 0);
  return PyObject_CallFunction(PyTuple_GetItem(plan, ALLOCATE), "NO", PyArray_IntTupleFromIntp(rank, shape), dtype);
}

/* Runs the entry.  Where the caller owns the arguments, as on x86-64 and AArch64, a function may be given more than it takes. */
#define FOUR(w, i) w[i], w[(i) + 1], w[(i) + 2], w[(i) + 3]
#define SIXTEEN(w, i) FOUR(w, i), FOUR(w, (i) + 4), FOUR(w, (i) + 8), FOUR(w, (i) + 12)
static int32_t run(const Program* p, const int64_t* w, int count) {
  int32_t (*entry)(int64_t, ...) = (int32_t(*)(int64_t, ...))(intptr_t)p->entry;
  int (*set_limit)(int) = (int (*)(int))(intptr_t)p->set_limit;
  int before = p->threads ? set_limit((int)p->threads) : 0;
  int32_t status = count <= 8    ? entry(FOUR(w, 0), FOUR(w, 4))
                   : count <= 16 ? entry(SIXTEEN(w, 0))
                                 : entry(SIXTEEN(w, 0), SIXTEEN(w, 16), SIXTEEN(w, 32), SIXTEEN(w, 48));
  if (p->threads) set_limit(before);
  return status;
}

/* The result's array where the user gave it, else a scalar if its rank is 0. */
static PyObject* hand_over(PyObject* result, PyObject* given) {
  Py_INCREF(result);
  return given ? result : PyArray_Return((PyArrayObject*)result);
}

/* The only result (`finish` is None), or what that makes of all of them (of those that the program has allocated, their addresses) and of
 * the sizes that data decided. */
static PyObject* finish(PyObject* plan, PyObject** results, PyObject** given, void** memory, int made, const int64_t* found,
                        int64_t existentials) {
  PyObject *last = PyTuple_GetItem(plan, FINISH), *parts;
  if (last == Py_None) return hand_over(results[0], given[0]);
  if (!(parts = PyTuple_New(made + existentials))) return NULL;
  for (int k = 0; k < made; k++)
    PyTuple_SetItem(parts, k, results[k] ? hand_over(results[k], given[k]) : PyLong_FromVoidPtr(memory[k]));
  for (int64_t k = 0; k < existentials; k++) PyTuple_SetItem(parts, made + k, PyLong_FromLongLong(found[k]));
  return PyErr_Occurred() ? NULL : PyObject_CallFunction(last, "(N)", parts);
}

static PyObject *plan_name, *out_name;

static PyObject* call(PyObject* self, PyObject* arguments, PyObject* options) {
  PyObject *plan = PyObject_GetAttr(self, plan_name), *out = Py_None, *result = NULL;
  PyObject *leaves[2 * MOST], **results = leaves, *given[MOST] = {NULL}; /* the results stand behind the inputs */
  int64_t words[MOST] = {0}, found[MOST], release[MOST] = {0};
  void* memory[MOST] = {NULL}; /* of results that the program allocates, and how it is given back */
  _Alignas(16) char scalars[MOST][16];
  npy_intp shape[MOST];
  int held = 0, made = 0, passed = 0, ran = 0;
  RdFault fault = {0, 0, {0}};
  if (!plan) return NULL;
  if (plan == Py_None) goto end;
  if (options && PyDict_Size(options) && (PyDict_Size(options) > 1 || !(out = PyDict_GetItem(options, out_name)))) goto end;

  PyObject* types = PyTuple_GetItem(plan, TYPES);
  const Program* p = (const Program*)PyBytes_AsString(PyTuple_GetItem(plan, PROGRAM));
  Numbers n;
  n.next = p->code, n.count = 0, n.wrong = 0;
  while (held < p->inputs + p->explicit_sizes) leaves[held++] = NULL;
  results = leaves + held;
  if (!unpack(PyTuple_GetItem(plan, TREE), arguments, leaves)) goto end;
  if (out != Py_None && (PyTuple_GetItem(plan, OUT) == Py_None || !unpack(PyTuple_GetItem(plan, OUT), out, given))) goto end;
  for (int i = 0; i < p->inputs; i++) {
    PyObject *leaf = leaves[i], *type = (PyObject*)Py_TYPE(leaf), *dtype = PyTuple_GetItem(types, 3 * i);
    int rank = (int)*n.next++;
    if (rank ? !is_plain(leaf, dtype, rank, NPY_ARRAY_C_CONTIGUOUS)
             : type != PyTuple_GetItem(types, 3 * i + 1) && !is_of_kind(leaf, PyTuple_GetItem(types, 3 * i + 2)))
      goto end;
    if (!rank && PyArray_Pack((PyArray_Descr*)dtype, scalars[i], leaf)) goto end;
    for (int d = 0; d < rank; d++) know(&n, PyArray_DIM((PyArrayObject*)leaf, d));
    words[passed++] = rank ? (intptr_t)PyArray_DATA((PyArrayObject*)leaf) : (intptr_t)scalars[i];
  }
  for (int i = (int)p->inputs; i < held; i++) {
    if (!PyLong_CheckExact(leaves[i])) goto end;
    know(&n, PyLong_AsLongLong(leaves[i])); /* -1 where it is too large */
  }
  for (int64_t i = 0; i < p->tests; i++) {
    int64_t left = evaluate(&n), right = evaluate(&n);
    if (left != right) goto end;
  }
  for (int64_t i = 0; i < p->sizes; i++) words[passed++] = evaluate(&n);
  for (int64_t i = 0; i < p->existentials; i++) know(&n, evaluate(&n));
  if (n.wrong) goto end;
  for (; made < p->outputs; made++) {
    int rank = (int)*n.next++;
    if (rank < 0) { /* the program allocates it */
      release[made] = *n.next++, results[made] = NULL;
      words[passed++] = (intptr_t)&memory[made];
      continue;
    }
    for (int d = 0; d < rank; d++)
      if ((shape[d] = evaluate(&n)) < 0) n.wrong = 1;
    PyObject* dtype = PyTuple_GetItem(types, 3 * (p->inputs + made));
    if (n.wrong || !(results[made] = take_result(plan, given[made], dtype, rank, shape, leaves, held + made))) goto end;
    words[passed++] = (intptr_t)PyArray_DATA((PyArrayObject*)results[made]);
  }
  for (int64_t k = 0; k < p->existentials; k++) words[passed++] = (intptr_t)&found[k];
  words[passed++] = (intptr_t)&fault;

  ran = 1;
  PyThreadState* state = PyEval_SaveThread();
  int32_t status = run(p, words, passed);
  PyEval_RestoreThread(state);
  if (status || fault.kind) {
    for (int k = 0; k < made; k++)
      if (memory[k]) ((void (*)(void*))(intptr_t)release[k])(memory[k]);
    PyObject* record = PyBytes_FromStringAndSize((char*)&fault, sizeof fault);
    result = record ? PyObject_CallMethod(self, "_fail", "iO", (int)status, record) : NULL;
    Py_XDECREF(record);
  } else if (out != Py_None)
    result = Py_NewRef(out);
  else
    result = finish(plan, results, given, memory, made, found, p->existentials);
end:
  while (made) Py_XDECREF(results[--made]);
  while (held) Py_XDECREF(leaves[--held]);
  for (int k = 0; out != Py_None && k < MOST; k++) Py_XDECREF(given[k]);
  Py_DECREF(plan);
  if (ran) return result;
  PyErr_Clear();
  PyObject* complete = PyObject_GetAttrString(self, "_complete");
  result = complete ? PyObject_Call(complete, arguments, options) : NULL;
  Py_XDECREF(complete);
  return result;
}

static PyType_Slot slots[] = {{Py_tp_call, call}, {0, NULL}};
static PyType_Spec caller = {"raido.targets._call.Caller", 0, 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};
static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT, "_call", NULL, -1, NULL, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__call(void) {
  import_array();
  PyObject *module = PyModule_Create(&definition), *type = PyType_FromSpec(&caller);
  plan_name = PyUnicode_InternFromString("_plan"), out_name = PyUnicode_InternFromString("out");
  return module && type && !PyModule_AddObject(module, "Caller", type) ? module : NULL;
}
