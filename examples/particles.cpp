// A particle system on an ObjectPool: thousands of short-lived objects, updated every frame.
// Particles never move, so an emitter may keep a pointer to one; the pool finds the live ones
// without a list.
#include <strata/object_pool.hpp>

#include <cstdio>
#include <random>

struct Particle {
  Particle(float px, float py, float vx, float vy, int frames)
      : x(px), y(py), dx(vx), dy(vy), frames_left(frames) {}
  float x, y;
  float dx, dy;
  int frames_left;
};

int main() {
  // Starts with room for 256 and doubles when a burst needs more. Particles still in flight at the
  // end are destroyed without a report.
  strata::ObjectPool<Particle> particles(256, strata::Exhaustion::kGrow,
                                         strata::Leftovers::kDestroy);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> speed(-1.0f, 1.0f);
  std::size_t born = 0;
  std::size_t most = 0;
  for (int frame = 0; frame < 300; ++frame) {
    const int burst = frame % 100 == 0 ? 1000 : 20;
    for (int i = 0; i < burst; ++i, ++born) {
      particles.create(0.0f, 0.0f, speed(random), speed(random), 30 + frame % 40);
    }
    particles.for_each([&](Particle& particle) {
      particle.x += particle.dx;
      particle.y += particle.dy;
      if (--particle.frames_left == 0) particles.destroy(&particle);
    });
    if (particles.size() > most) most = particles.size();
  }
  std::printf("%zu particles born, at most %zu at once, %zu in flight at the end, %zu slots\n",
              born, most, particles.size(), particles.capacity());
  return born == 297 * 20 + 3 * 1000 && particles.size() < most ? 0 : 1;
}
