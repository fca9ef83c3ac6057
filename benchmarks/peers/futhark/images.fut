-- Filters of images, each stage an array of its own or, where Futhark fuses it, none.
def at (n: i64) (i: i64) : i64 = i64.max 0 (i64.min (n - 1) i)

entry blur_u16 [h][w] (a: [h][w]u16) : [][]u16 =
  let across = tabulate_2d h (w - 2) (\y x -> #[unsafe] (a[y, x] + a[y, x + 1] + a[y, x + 2]) / 3)
  in tabulate_2d (h - 2) (w - 2) (\y x -> #[unsafe] (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3)

entry blur_f32 [h][w] (a: [h][w]f32) : [][]f32 =
  let across = tabulate_2d h (w - 2) (\y x -> #[unsafe] (a[y, x] + a[y, x + 1] + a[y, x + 2]) / 3)
  in tabulate_2d (h - 2) (w - 2) (\y x -> #[unsafe] (across[y, x] + across[y + 1, x] + across[y + 2, x]) / 3)

entry sobel [h][w] (a: [h][w]f32) : [h][w]f32 =
  tabulate_2d h w (\y x -> #[unsafe]
    let (u, d, l, r) = (at h (y - 1), at h (y + 1), at w (x - 1), at w (x + 1))
    let gx = (a[u, r] - a[u, l]) + 2 * (a[y, r] - a[y, l]) + (a[d, r] - a[d, l])
    let gy = (a[d, l] - a[u, l]) + 2 * (a[d, x] - a[u, x]) + (a[d, r] - a[u, r])
    in f32.sqrt (gx * gx + gy * gy))

-- Nine taps of a Gaussian, sigma 2.
def nine (tap: i64 -> f32) : f32 =
  0.0276305508 * tap (-4) + 0.0662822425 * tap (-3) + 0.12383154 * tap (-2) + 0.180173829 * tap (-1) + 0.204163685 * tap 0
  + 0.180173829 * tap 1 + 0.12383154 * tap 2 + 0.0662822425 * tap 3 + 0.0276305508 * tap 4

entry gauss_direct [h][w] (a: [h][w]f32) : [h][w]f32 =
  tabulate_2d h w (\y x -> #[unsafe] nine (\j -> nine (\i -> a[at h (y + j), at w (x + i)])))

entry gauss_separable [h][w] (a: [h][w]f32) : [h][w]f32 =
  let down = tabulate_2d h w (\y x -> #[unsafe] nine (\k -> a[at h (y + k), x]))
  in tabulate_2d h w (\y x -> #[unsafe] nine (\k -> down[y, at w (x + k)]))

-- Seven taps of a Gaussian, sigma 1.5.
def seven (tap: i64 -> f32) : f32 =
  0.036632847 * tap (-3) + 0.111280762 * tap (-2) + 0.216745317 * tap (-1) + 0.270682156 * tap 0
  + 0.216745317 * tap 1 + 0.111280762 * tap 2 + 0.036632847 * tap 3

entry unsharp [h][w] (a: [3][h][w]f32) : [3][h][w]f32 =
  let gray = tabulate_2d h w (\y x -> #[unsafe] 0.299 * a[0, y, x] + 0.587 * a[1, y, x] + 0.114 * a[2, y, x])
  let down = tabulate_2d h w (\y x -> #[unsafe] seven (\k -> gray[at h (y + k), x]))
  let ratio = tabulate_2d h w (\y x -> #[unsafe]
    (2 * gray[y, x] - seven (\k -> down[y, at w (x + k)])) / gray[y, x])
  in tabulate_3d 3 h w (\c y x -> #[unsafe] ratio[y, x] * a[c, y, x])

-- Derivatives one pixel outside are those of the image with its edge repeated.
entry harris [h][w] (a: [h][w]f32) : [h][w]f32 =
  let slope dy dx = tabulate_2d (h + 2) (w + 2) (\y x -> #[unsafe]
    let p j i = a[at h (y - 1 + j), at w (x - 1 + i)]
    let side s = p (s * dy + dx) (s * dx + dy) - p (s * dy - dx) (s * dx - dy)
    in (side (-1) + 2 * side 0 + side 1) / 12)
  let ix = slope 1 0
  let iy = slope 0 1
  in tabulate_2d h w (\y x -> #[unsafe]
       let box (at: i64 -> i64 -> f32) : f32 =
         at y x + at y (x + 1) + at y (x + 2) + at (y + 1) x + at (y + 1) (x + 1) + at (y + 1) (x + 2)
         + at (y + 2) x + at (y + 2) (x + 1) + at (y + 2) (x + 2)
       let xx = box (\j i -> ix[j, i] * ix[j, i])
       let yy = box (\j i -> iy[j, i] * iy[j, i])
       let xy = box (\j i -> ix[j, i] * iy[j, i])
       let trace = xx + yy
       in xx * yy - xy * xy - 0.04 * trace * trace)
