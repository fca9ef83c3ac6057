-- Programs bound by arithmetic, in which elements go ways of their own.
entry mandelbrot [h][w] (ci: [h]f32) (cr: [w]f32) : [h][w]i32 =
  map (\i -> map (\r ->
    (loop (x, y, steps) = (0f32, 0f32, 0i32) while x * x + y * y <= 4 && steps < 256 do
       (x * x - y * y + r, 2 * x * y + i, steps + 1)).2) cr) ci

entry nbody [n] (xs: [n]f32) (ys: [n]f32) (zs: [n]f32) (ms: [n]f32) : ([n]f32, [n]f32, [n]f32) =
  let add (a, b, c) (d, e, f) = (a + d, b + e, c + f)
  let pulled x y z =
    reduce_comm add (0, 0, 0)
      (map4 (\p q r m ->
        let (dx, dy, dz) = (p - x, q - y, r - z)
        let near = dx * dx + dy * dy + dz * dz + 0.0025f32
        let s = m / (near * f32.sqrt near)
        in (dx * s, dy * s, dz * s)) xs ys zs ms)
  in unzip3 (map3 pulled xs ys zs)

def below (d: f32) : f32 =
  let k = 1 / (1 + 0.2316419 * f32.abs d)
  let p = k * (0.319381530 + k * (-0.356563782 + k * (1.781477937 + k * (-1.821255978 + k * 1.330274429))))
  let c = 0.39894228 * f32.exp (-0.5 * d * d) * p
  in if d > 0 then 1 - c else c

entry black_scholes [n] (spot: [n]f32) (strike: [n]f32) (years: [n]f32) : ([n]f32, [n]f32) =
  unzip (map3 (\s x t ->
    let spread = 0.3 * f32.sqrt t
    let d1 = (f32.log (s / x) + 0.065 * t) / spread
    let later = x * f32.exp (-0.02 * t)
    let (n1, n2) = (below d1, below (d1 - spread))
    in (s * n1 - later * n2, later * (1 - n2) - s * (1 - n1))) spot strike years)
