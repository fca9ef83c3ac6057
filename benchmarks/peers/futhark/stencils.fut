-- Jacobi sweeps with the edge repeated; `unsafe` spares the checks of the indices, which `at` keeps within bounds.
def at (n: i64) (i: i64) : i64 = i64.max 0 (i64.min (n - 1) i)

entry jacobi2d_5 [h][w] (a: [h][w]f32) : [h][w]f32 =
  tabulate_2d h w (\y x -> #[unsafe]
    (a[y, x] + a[y, at w (x - 1)] + a[y, at w (x + 1)] + a[at h (y - 1), x] + a[at h (y + 1), x]) * 0.2)

entry jacobi2d_9 [h][w] (a: [h][w]f32) : [h][w]f32 =
  tabulate_2d h w (\y x -> #[unsafe]
    let (u, d, l, r) = (at h (y - 1), at h (y + 1), at w (x - 1), at w (x + 1))
    in (a[u, l] + a[u, x] + a[u, r] + a[y, l] + a[y, x] + a[y, r] + a[d, l] + a[d, x] + a[d, r]) / 9)

entry jacobi3d_7 [d][h][w] (a: [d][h][w]f32) : [d][h][w]f32 =
  tabulate_3d d h w (\z y x -> #[unsafe]
    (a[z, y, x] + a[z, y, at w (x - 1)] + a[z, y, at w (x + 1)] + a[z, at h (y - 1), x] + a[z, at h (y + 1), x]
     + a[at d (z - 1), y, x] + a[at d (z + 1), y, x]) / 7)

entry jacobi3d_13 [d][h][w] (a: [d][h][w]f32) : [d][h][w]f32 =
  tabulate_3d d h w (\z y x -> #[unsafe]
    (a[z, y, x] + a[z, y, at w (x - 1)] + a[z, y, at w (x + 1)] + a[z, y, at w (x - 2)] + a[z, y, at w (x + 2)]
     + a[z, at h (y - 1), x] + a[z, at h (y + 1), x] + a[z, at h (y - 2), x] + a[z, at h (y + 2), x]
     + a[at d (z - 1), y, x] + a[at d (z + 1), y, x] + a[at d (z - 2), y, x] + a[at d (z + 2), y, x]) / 13)
