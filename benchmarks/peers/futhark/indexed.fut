-- Scans, histograms, a filter, and a sparse matrix times a vector.
entry scan_f32 [n] (xs: [n]f32) : [n]f32 = scan (+) 0 xs

entry scan_i32 [n] (xs: [n]i32) : [n]i32 = scan (+) 0 xs

entry histogram_256 [n] (xs: [n]i32) : [256]i32 = hist (+) 0 256 (map i64.i32 xs) (replicate n 1)

entry histogram_1e6 [n] (xs: [n]i32) : [1000000]i32 = hist (+) 0 1000000 (map i64.i32 xs) (replicate n 1)

entry filter (xs: []i32) : []i32 = filter (< 500) xs

-- A row at a time.
entry spmv_rows [m][k][n] (offsets: [m]i64) (columns: [k]i32) (values: [k]f32) (x: [n]f32) : []f32 =
  tabulate (m - 1) (\r -> #[unsafe]
    loop sum = 0 for i in offsets[r]..<offsets[r + 1] do sum + values[i] * x[columns[i]])

-- The sum of every segment, by a scan that starts anew at each.
def segment_sums [m][k] (offsets: [m]i64) (values: [k]f32) : []f32 =
  let starts = scatter (replicate k false) (init offsets) (replicate (m - 1) true)
  let add (s, v) (t, w) = (s || t, if t then w else v + w)
  let sums = map (.1) (scan add (false, 0) (zip starts values))
  in tabulate (m - 1) (\r -> #[unsafe] if offsets[r] == offsets[r + 1] then 0 else sums[offsets[r + 1] - 1])

-- All numbers at once.
entry spmv_flat [m][k][n] (offsets: [m]i64) (columns: [k]i32) (values: [k]f32) (x: [n]f32) : []f32 =
  segment_sums offsets (map2 (\c v -> #[unsafe] v * x[c]) columns values)

-- A segment at a time.
entry segments_rows [m][k] (offsets: [m]i64) (values: [k]f32) : []f32 =
  tabulate (m - 1) (\s -> #[unsafe] loop sum = 0 for i in offsets[s]..<offsets[s + 1] do sum + values[i])

entry segments_flat [m][k] (offsets: [m]i64) (values: [k]f32) : []f32 = segment_sums offsets values
