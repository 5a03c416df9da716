"""What an unchanged run need not conclude again. Everything runs without it, only slower."""
