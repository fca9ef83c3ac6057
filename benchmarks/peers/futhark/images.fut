-- Filters of images, each stage an array of its own or, where Futhark fuses it, none.
def at (n: i64) (i: i64) : i64 = i64.max 0 (i64.min (n - 1) i)

entry blur_u16 [h][w] (a: [h][w]u16) : [][]u16 =
  let across = tabulate_2d h (w - 2) (\y x -> #[unsafe] (a[y, x] + a[y, x + 1] + a[y, x + 2]) / 3)
  in tabulate_2d (h - 2) (w - 2) (\y x -> #[unsafe] (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3)

entry blur_f32 [h][w] (a: [h][w]f32) : [][]f32 =
  let across = tabulate_2d h (w - 2) (\y x -> #[unsafe] (a[y, x] + a[y, x + 1] + a[y, x + 2]) * (1 / 3))
  in tabulate_2d (h - 2) (w - 2) (\y x -> #[unsafe] (across[y, x] + across[y + 1, x] + across[y + 2, x]) * (1 / 3))

entry sobel [h][w] (a: [h][w]f32) : [h][w]f32 =
  tabulate_2d h w (\y x -> #[unsafe]
    let (u, d, l, r) = (at h (y - 1), at h (y + 1), at w (x - 1), at w (x + 1))
    let gx = (a[u, r] - a[u, l]) + 2 * (a[y, r] - a[y, l]) + (a[d, r] - a[d, l])
    let gy = (a[d, l] - a[u, l]) + 2 * (a[d, x] - a[u, x]) + (a[d, r] - a[u, r])
    in f32.sqrt (gx * gx + gy * gy))

-- Nine weights of a Gaussian, sigma 2.
def nine : [9]f32 =
  let w = map (\k -> f32.exp (-(f32.i64 (k - 4)) ** 2 / 8)) (iota 9)
  in map (/ f32.sum w) w

entry gauss_direct [h][w] (a: [h][w]f32) : [h][w]f32 =
  let weights = nine
  in tabulate_2d h w (\y x -> #[unsafe]
       loop s = 0 for j < 9 do
         loop s = s for i < 9 do s + weights[j] * weights[i] * a[at h (y + j - 4), at w (x + i - 4)])

entry gauss_separable [h][w] (a: [h][w]f32) : [h][w]f32 =
  let weights = nine
  let down = tabulate_2d h w (\y x -> #[unsafe] loop s = 0 for k < 9 do s + weights[k] * a[at h (y + k - 4), x])
  in tabulate_2d h w (\y x -> #[unsafe] loop s = 0 for k < 9 do s + weights[k] * down[y, at w (x + k - 4)])

def seven : [7]f32 =
  let w = map (\k -> f32.exp (-(f32.i64 (k - 3)) ** 2 / 4.5)) (iota 7)
  in map (/ f32.sum w) w

entry unsharp [h][w] (a: [3][h][w]f32) : [3][h][w]f32 =
  let weights = seven
  let gray = tabulate_2d h w (\y x -> #[unsafe] 0.299 * a[0, y, x] + 0.587 * a[1, y, x] + 0.114 * a[2, y, x])
  let down = tabulate_2d h w (\y x -> #[unsafe] loop s = 0 for k < 7 do s + weights[k] * gray[at h (y + k - 3), x])
  let ratio = tabulate_2d h w (\y x -> #[unsafe]
    let blurred = loop s = 0 for k < 7 do s + weights[k] * down[y, at w (x + k - 3)]
    in (2 * gray[y, x] - blurred) / gray[y, x])
  in tabulate_3d 3 h w (\c y x -> #[unsafe] ratio[y, x] * a[c, y, x])

-- Derivatives one pixel outside are those of the image with its edge repeated.
entry harris [h][w] (a: [h][w]f32) : [h][w]f32 =
  let slope dy dx = tabulate_2d (h + 2) (w + 2) (\y x -> #[unsafe]
    let p j i = a[at h (y - 1 + j), at w (x - 1 + i)]
    let side s = p (s * dy + dx) (s * dx + dy) - p (s * dy - dx) (s * dx - dy)
    in (side (-1) + 2 * side 0 + side 1) * (1 / 12))
  let ix = slope 1 0
  let iy = slope 0 1
  in tabulate_2d h w (\y x -> #[unsafe]
       let (xx, yy, xy) =
         loop (xx, yy, xy) = (0, 0, 0) for k < 9 do
           let (p, q) = (ix[y + k / 3, x + k % 3], iy[y + k / 3, x + k % 3])
           in (xx + p * p, yy + q * q, xy + p * q)
       let trace = xx + yy
       in xx * yy - xy * xy - 0.04 * trace * trace)
