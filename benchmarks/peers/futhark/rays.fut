-- Ambient occlusion of three spheres on a floor.
type vector = {x: f32, y: f32, z: f32}
def dot (a: vector) (b: vector) : f32 = a.x * b.x + a.y * b.y + a.z * b.z
def minus (a: vector) (b: vector) : vector = {x = a.x - b.x, y = a.y - b.y, z = a.z - b.z}
def along (s: f32) (a: vector) (b: vector) : vector = {x = s * a.x + b.x, y = s * a.y + b.y, z = s * a.z + b.z}
def cross (a: vector) (b: vector) : vector =
  {x = a.y * b.z - a.z * b.y, y = a.z * b.x - a.x * b.z, z = a.x * b.y - a.y * b.x}
def zero : vector = {x = 0, y = 0, z = 0}
def scaled (s: f32) (a: vector) : vector = {x = s * a.x, y = s * a.y, z = s * a.z}
def unit (a: vector) : vector = scaled (1 / f32.sqrt (dot a a)) a

def first : vector = {x = -2, y = 0, z = -3.5}
def second : vector = {x = -0.5, y = 0, z = -3}
def third : vector = {x = 1, y = 0, z = -2.2}

def meet (centre: vector) (ray: vector) (best: f32, normal: vector) : (f32, vector) =
  let b = -(dot centre ray)
  let inside = b * b - (dot centre centre - 0.25)
  in if inside > 0
     then let t = -b - f32.sqrt inside
          in if t > 0 && t < best then (t, unit (minus (scaled t ray) centre)) else (best, normal)
     else (best, normal)

def met (centre: vector) (origin: vector) (ray: vector) : bool =
  let away = minus origin centre
  let b = dot away ray
  let c = dot away away - 0.25
  in b * b > c && b < 0 && c > 0

entry ambient_occlusion [h][w][k] (ys: [h][2]f32) (xs: [w][2]f32) (dx: [k]f32) (dy: [k]f32) (dz: [k]f32) : [h][w]f32 =
  let light y x =
    let ray = unit {x, y, z = -1}
    let floor = if y < 0 then -0.5 / ray.y else 1e17
    let (t, normal) = meet third ray (meet second ray (meet first ray (floor, {x = 0, y = 1, z = 0})))
    in if t < 1e17
       then let up : vector = if f32.abs normal.x < 0.6 then {x = 1, y = 0, z = 0}
                     else if f32.abs normal.y < 0.6 then {x = 0, y = 1, z = 0} else {x = 0, y = 0, z = 1}
            let b0 = unit (cross up normal)
            let b1 = unit (cross normal b0)
            let origin = along 1e-4 normal (scaled t ray)
            let hits = loop hits = 0i32 for i < k do
              let way = along dx[i] b0 (along dy[i] b1 (along dz[i] normal zero))
              let hit = (origin.y + 0.5) * way.y < 0
                        || met first origin way || met second origin way || met third origin way
              in if hit then hits + 1 else hits
            in 1 - f32.i32 hits / f32.i64 k
       else 0
  in tabulate_2d h w (\y x ->
       (light ys[y, 0] xs[x, 0] + light ys[y, 0] xs[x, 1] + light ys[y, 1] xs[x, 0] + light ys[y, 1] xs[x, 1]) / 4)
