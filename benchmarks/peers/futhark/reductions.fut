-- Sums, and the product of matrices.
entry sum (xs: []f32) : f32 = f32.sum xs

entry dot [n] (xs: [n]f32) (ys: [n]f32) : f32 = f32.sum (map2 (*) xs ys)

entry row_sums [h][w] (a: [h][w]f32) : [h]f32 = map f32.sum a

entry column_sums [h][w] (a: [h][w]f32) : [w]f32 = map f32.sum (transpose a)

-- The same, row after row.
entry column_sums_by_rows [h][w] (a: [h][w]f32) : [w]f32 = reduce (map2 (+)) (replicate w 0) a

entry sgemm [n][k][m] (a: [n][k]f32) (b: [k][m]f32) : [n][m]f32 =
  map (\row -> map (\column -> f32.sum (map2 (*) row column)) (transpose b)) a

-- The same as sums of rows of the right factor.
entry sgemm_by_rows [n][k][m] (a: [n][k]f32) (b: [k][m]f32) : [n][m]f32 =
  map (\row -> loop sums = replicate m 0 for i < k do map2 (\s x -> s + row[i] * x) sums b[i]) a
